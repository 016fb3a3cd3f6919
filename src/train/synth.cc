// Random models.
#include "train/synth.h"

#include <algorithm>

#include "base/rng.h"
#include "base/threads.h"
#include "io/atomic_file.h"
#include "model/model_spec.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/byte_alphabet.h"
#include "train/initialize.h"
#include "train/shards.h"

namespace snug {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;
constexpr int64_t kConvertGrain = int64_t{1} << 16;

struct RandomTensor {
  std::string name;
  Initializer initializer;
  int64_t elements = 0;
};

// A tokenizer of single bytes: real enough to train with, whatever the vocabulary.
Json byte_tokenizer() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[byte_alphabet()[static_cast<size_t>(byte)]] = byte;
  }
  auto special = [](int id, const char* content) {
    return Json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  return {{"version", "1.0"},
          {"added_tokens", {special(256, "<s>"), special(257, "</s>")}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
}

void write_small_files(const SynthOptions& options, const std::filesystem::path& folder) {
  Json config = options.config;
  config["torch_dtype"] =
      options.dtype == DType::f32 ? "float32" : (options.dtype == DType::f16 ? "float16" : "bfloat16");
  config["bos_token_id"] = 256;
  config["eos_token_id"] = 257;
  write_file_atomically(folder / "tokenizer.json", byte_tokenizer().dump() + "\n");
  Json tokenizer_config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", "<s>"},
      {"eos_token", "</s>"},
      {"chat_template", *named_chat_template_source("chatml")}};  // so that it trains on any data
  write_file_atomically(folder / "tokenizer_config.json", tokenizer_config.dump(2) + "\n");
  // Last, so that a folder with a config is a whole one.
  write_file_atomically(folder / "config.json", config.dump(2) + "\n");
}

}  // namespace

void write_synthetic_model(
    const SynthOptions& options, const std::filesystem::path& folder,
    const std::function<void(int64_t written_bytes, int64_t total_bytes)>& on_progress) {
  require_writable_folder(folder);
  ModelSpec spec = parse_model_config(options.config.dump(), options.source);
  Program program = build_forward(spec, {.dtype = options.dtype, .max_tokens = 1, .max_sequences = 1});
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<RandomTensor> tensors;
  int64_t total = 0;
  for (const Buffer& buffer : program.buffers) {
    for (const TensorPart& part : buffer.parts) {
      std::vector<int64_t> shape = part_shape(buffer, part);
      entries.push_back({part.names.front(), options.dtype, shape});
      total += bytes_of(entries.back());
      tensors.push_back({part.names.front(), weight_initializer(buffer, part, spec),
                         bytes_of(entries.back()) / size_of(options.dtype)});
    }
  }
  std::vector<float> values(static_cast<size_t>(kPieceElements));
  std::vector<std::byte> bytes(static_cast<size_t>(kPieceElements * size_of(options.dtype)));
  int64_t written = 0;
  write_shards(folder, entries, [&](size_t index, SafetensorsWriter& writer) {
    Rng rng = tensor_rng(options.seed, tensors[index].name);
    for (int64_t done = 0; done < tensors[index].elements; done += kPieceElements) {
      int64_t now = std::min(kPieceElements, tensors[index].elements - done);
      tensors[index].initializer.fill(rng, done, {values.data(), static_cast<size_t>(now)});
      parallel_for(now, kConvertGrain, [&](int64_t begin, int64_t end) {
        convert(DType::f32, values.data() + begin, options.dtype,
                bytes.data() + bytes_of(options.dtype, begin), end - begin);
      });
      writer.write({bytes.data(), static_cast<size_t>(now * size_of(options.dtype))});
      written += now * size_of(options.dtype);
      on_progress(written, total);
    }
  });
  write_small_files(options, folder);
}

}  // namespace snug
