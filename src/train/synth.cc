// Random models.
#include "train/synth.h"

#include <algorithm>
#include <array>
#include <future>
#include <span>
#include <vector>

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

constexpr int64_t kPieceElements = int64_t{1} << 21;

struct RandomTensor {
  std::string name;
  Initializer initializer;
  int64_t elements = 0;
};

// The bytes of some values of a tensor, by all threads.
void fill_bytes(const RandomTensor& tensor, const Rng& rng, DType dtype, int64_t first, int64_t count,
                std::byte* bytes) {
  constexpr int64_t kGrain = 4096;
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    std::array<float, kGrain> values;
    for (int64_t i = begin; i < end; i += kGrain) {
      int64_t now = std::min(kGrain, end - i);
      tensor.initializer.fill(rng, first + i, {values.data(), static_cast<size_t>(now)});
      convert(DType::f32, values.data(), dtype, bytes + bytes_of(dtype, i), now);
    }
  });
}

// Two pieces of memory: one is filled while the other is written to the disk.
using Pieces = std::array<std::vector<std::byte>, 2>;

class PieceWriter {
 public:
  PieceWriter(Pieces& pieces, SafetensorsWriter& writer) : pieces_(pieces), writer_(writer) {}
  std::byte* next() { return pieces_[current_].data(); }
  void write(int64_t bytes) {
    finish();
    std::span<const std::byte> piece(pieces_[current_].data(), static_cast<size_t>(bytes));
    writing_ = std::async(std::launch::async, [this, piece] { writer_.write(piece); });
    current_ = 1 - current_;
  }
  // Everything is with the system; throws what went wrong on the way.
  void finish() {
    if (writing_.valid()) {
      writing_.get();
    }
  }

 private:
  Pieces& pieces_;
  SafetensorsWriter& writer_;
  size_t current_ = 0;
  std::future<void> writing_;
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
  // All of its fields: Hugging Face's reader wants each of them.
  Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"added_tokens", {special(256, "<s>"), special(257, "</s>")}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
}

void write_small_files(const SynthOptions& options, const std::filesystem::path& folder) {
  Json config = options.config;
  config.erase("quantization_config");  // the weights here are plain
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
  int64_t written = 0;
  Pieces memory;  // of all tensors: fresh memory costs the system as much as writing it does
  for (std::vector<std::byte>& piece : memory) {
    piece.resize(static_cast<size_t>(bytes_of(options.dtype, kPieceElements)));
  }
  write_shards(folder, entries, [&](size_t index, SafetensorsWriter& writer) {
    const RandomTensor& tensor = tensors[index];
    Rng rng = tensor_rng(options.seed, tensor.name);
    PieceWriter pieces(memory, writer);
    for (int64_t done = 0; done < tensor.elements; done += kPieceElements) {
      int64_t now = std::min(kPieceElements, tensor.elements - done);
      fill_bytes(tensor, rng, options.dtype, done, now, pieces.next());
      pieces.write(bytes_of(options.dtype, now));
      written += bytes_of(options.dtype, now);
      on_progress(written, total);
    }
    pieces.finish();
  });
  write_small_files(options, folder);
}

}  // namespace snug
