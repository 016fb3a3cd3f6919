// Trained models that other people made, where they are at hand: they load, their loss on a story is Hugging
// Face's, and greedy text is word for word the same.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "data/batches/limits.h"
#include "data/batches/synthetic.h"
#include "support/temporary_folder.h"
#include "support/train_fixture.h"
#include "test_paths.h"
#include "text/tokenizer/tokenizer.h"
#include "train/generator.h"

namespace snug {
namespace {

const std::filesystem::path kModels =
    std::filesystem::path(SNUG_SOURCE_DIR).parent_path() / "shared/data/models";
constexpr const char* kStory =
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, "
    "she "
    "saw a big, red ball.";

// The opening token and the text.
std::vector<int32_t> tokens_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids = {*tokenizer.bos_id()};
  std::vector<int32_t> more = tokenizer.encode(text);
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

double loss_on_story(const std::filesystem::path& folder, const Tokenizer& tokenizer) {
  Recipe recipe;
  recipe.model.path = folder.string();
  recipe.model.dtype = DType::f32;
  recipe.data.max_length = 100;
  recipe.data.eval_split = 1;
  recipe.training.per_device_train_batch_size = 1;
  TrainFixture fixture(recipe);
  Dataset dataset = make_dataset({make_example(tokens_of(tokenizer, kStory), 0)});
  return fixture.runner.evaluate(dataset, planned_batch(fixture.plan, kEvaluatePhase)).loss;
}

std::string greedy_text(const std::filesystem::path& folder, const Tokenizer& tokenizer, int64_t new_tokens) {
  Prompt prompt{tokens_of(tokenizer, "Once upon a time")};
  auto count = static_cast<int64_t>(prompt.tokens.size());
  CpuBackend backend;
  Plan plan = make_plan(
      compile_generation(
          locate_model(folder.string()).spec,
          {.dtype = DType::f32, .max_prompt_tokens = count, .max_total_tokens = count + new_tokens}),
      backend, backend.device_total_bytes());
  Executor executor(plan, backend);
  load_constants(executor);
  load_tensors(executor, Role::base_weights, open_tensors(folder));
  SamplingOptions options;
  options.max_new_tokens = new_tokens;
  return tokenizer.decode(generate(executor, prompt, options), true);
}

// Stores only `lm_head.weight`, which is its embedding as well.
TEST(SharedModels, TinyStoriesWithAHeadAndNoEmbedding) {
  std::filesystem::path folder = kModels / "tinystories-656k";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << folder << " is not there";
  }
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(folder);
  EXPECT_NEAR(loss_on_story(folder, *tokenizer), 3.53789, 1e-4);
  EXPECT_EQ(
      greedy_text(folder, *tokenizer, 60),
      ", a little girl named Lily lived in a small house with her mom, dad, and her dog, Spot, Spot, loved "
      "to "
      "play all day. One day, Lily saw a small bird on the ground. She picked it up and tried to reach the "
      "bird and see what it was.\nLily had an idea. She asked her mom if she could help the bird. Her mom "
      "said, \"Okay, let's go inside and see if you want");
}

// llama2.c's own format: seven numbers, then all layers' tensors of a kind after each other, in fp32.
class Llama2cFile {
 public:
  explicit Llama2cFile(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(header_), sizeof header_);
    std::vector<char> rest((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    values_.resize(rest.size() / sizeof(float));
    std::memcpy(values_.data(), rest.data(), values_.size() * sizeof(float));
  }

  int64_t width() const { return header_[0]; }
  int64_t inner_width() const { return header_[1]; }
  int64_t layers() const { return header_[2]; }
  int64_t heads() const { return header_[3]; }
  int64_t kv_heads() const { return header_[4]; }
  int64_t vocabulary() const { return header_[5]; }
  int64_t positions() const { return header_[6]; }

  std::vector<float> take(int64_t count) {
    std::vector<float> taken(values_.begin() + next_, values_.begin() + next_ + count);
    next_ += count;
    return taken;
  }

 private:
  int32_t header_[7] = {};
  std::vector<float> values_;
  int64_t next_ = 0;
};

// Its heads rotate neighbouring pairs; Hugging Face's rotate the first half with the second.
std::vector<float> with_halves(const std::vector<float>& pairs, int64_t head_dim, int64_t columns) {
  std::vector<float> halves(pairs.size());
  auto rows = static_cast<int64_t>(pairs.size()) / columns;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t within = row % head_dim;
    int64_t target = row - within + (within % 2) * head_dim / 2 + within / 2;
    std::copy_n(pairs.begin() + row * columns, columns, halves.begin() + target * columns);
  }
  return halves;
}

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::vector<NamedTensor> read_llama2c(Llama2cFile& file) {
  int64_t width = file.width();
  int64_t head_dim = width / file.heads();
  int64_t kv_width = file.kv_heads() * head_dim;
  std::vector<NamedTensor> tensors;
  tensors.push_back(
      {"model.embed_tokens.weight", {file.vocabulary(), width}, file.take(file.vocabulary() * width)});
  auto each_layer = [&](const std::string& name, std::vector<int64_t> shape, bool rotated = false) {
    for (int64_t layer = 0; layer < file.layers(); ++layer) {
      int64_t count = shape.size() == 1 ? shape[0] : shape[0] * shape[1];
      std::vector<float> values = file.take(count);
      tensors.push_back({"model.layers." + std::to_string(layer) + "." + name + ".weight", shape,
                         rotated ? with_halves(values, head_dim, width) : values});
    }
  };
  each_layer("input_layernorm", {width});
  each_layer("self_attn.q_proj", {width, width}, true);
  each_layer("self_attn.k_proj", {kv_width, width}, true);
  each_layer("self_attn.v_proj", {kv_width, width});
  each_layer("self_attn.o_proj", {width, width});
  each_layer("post_attention_layernorm", {width});
  each_layer("mlp.gate_proj", {file.inner_width(), width});
  each_layer("mlp.down_proj", {width, file.inner_width()});
  each_layer("mlp.up_proj", {file.inner_width(), width});
  tensors.push_back({"model.norm.weight", {width}, file.take(width)});
  return tensors;
}

void write_folder(Llama2cFile& file, const std::filesystem::path& folder) {
  std::vector<NamedTensor> tensors = read_llama2c(file);
  std::vector<SafetensorsWriter::Entry> entries;
  for (const NamedTensor& tensor : tensors) {
    entries.push_back({tensor.name, DType::f32, tensor.shape});
  }
  SafetensorsWriter writer(folder / "model.safetensors", entries);
  for (const NamedTensor& tensor : tensors) {
    writer.write(std::as_bytes(std::span(tensor.values)));
  }
  writer.finish();
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", file.vocabulary()},
                 {"hidden_size", file.width()},
                 {"intermediate_size", file.inner_width()},
                 {"num_hidden_layers", file.layers()},
                 {"num_attention_heads", file.heads()},
                 {"num_key_value_heads", file.kv_heads()},
                 {"max_position_embeddings", file.positions()},
                 {"rms_norm_eps", 1e-5},
                 {"tie_word_embeddings", true}};
  write_file_atomically(folder / "config.json", config.dump());
}

TEST(SharedModels, Stories260KFromItsOwnFormat) {
  std::filesystem::path source = kModels / "stories260K";
  if (!std::filesystem::exists(source)) {
    GTEST_SKIP() << source << " is not there";
  }
  TemporaryFolder folder;
  Llama2cFile file(source / "stories260K.bin");
  write_folder(file, folder.path());
  std::filesystem::copy_file(source / "tok512.model", folder / "tokenizer.model");
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(folder.path());
  EXPECT_NEAR(loss_on_story(folder.path(), *tokenizer), 0.32410, 1e-4);
  EXPECT_EQ(
      greedy_text(folder.path(), *tokenizer, 80),
      ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, "
      "red ball. She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go to the "
      "park");
}

}  // namespace
}  // namespace snug
