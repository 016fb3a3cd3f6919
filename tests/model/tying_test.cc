// Heads that are the embedding, and heads that are not: by the weights, as transformers decides.
#include "model/tying.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "model/locate.h"
#include "support/temporary_folder.h"
#include "test_paths.h"

namespace snug {
namespace {

std::filesystem::path reference(const std::string& name) {
  return std::filesystem::path(SNUG_SOURCE_DIR) / "tests/goldens/references" / name;
}

int64_t parameters_of(const std::filesystem::path& folder) {
  ModelSpec spec = locate_model(folder.string()).spec;
  return count_parameters(build_forward(spec, {.max_tokens = 1, .max_sequences = 1, .max_length_tokens = 1}));
}

// model.num_parameters() of transformers 5.
TEST(Tying, ParametersAsTransformersCountsThem) {
  const std::vector<std::pair<std::string, int64_t>> counts = {
      {"t5_tied_head", 5824},    {"mt5_tied_head", 5824},
      {"t5_few_buckets", 28896}, {"llama_own_head", 5220},
      {"mha_tied", 7680},        {"mistral_left_out", 8864},
      {"phi3_left_out", 8380},   {"mistral_layer_types", 13368}};
  for (const auto& [name, count] : counts) {
    EXPECT_EQ(parameters_of(reference(name)), count) << name;
  }
}

// A folder of the case's config and the given tensors of 2 x 2.
class FolderOf {
 public:
  FolderOf(const std::string& name, const std::vector<std::pair<std::string, float>>& tensors) {
    write_file_atomically(folder_ / "config.json", read_text_file(reference(name) / "config.json"));
    std::vector<SafetensorsWriter::Entry> entries;
    for (const auto& [tensor, value] : tensors) {
      entries.push_back({tensor, DType::f32, {2, 2}});
    }
    SafetensorsWriter writer(folder_ / "model.safetensors", entries);
    for (const auto& [tensor, value] : tensors) {
      const std::vector<float> values(4, value);
      writer.write(std::as_bytes(std::span(values)));
    }
    writer.finish();
  }
  bool is_tied() const { return locate_model(folder_.path().string()).spec.tied_embeddings; }

 private:
  TemporaryFolder folder_;
};

TEST(Tying, TheWeightsDecide) {
  EXPECT_TRUE(FolderOf("mha_tied", {{"model.embed_tokens.weight", 1}}).is_tied());
  EXPECT_TRUE(FolderOf("mha_tied", {{"lm_head.weight", 1}}).is_tied());
  EXPECT_TRUE(FolderOf("mha_tied", {{"lm_head.weight", 1}, {"model.embed_tokens.weight", 1}}).is_tied());
  EXPECT_FALSE(FolderOf("mha_tied", {{"lm_head.weight", 2}, {"model.embed_tokens.weight", 1}}).is_tied());
  // A config that does not tie is taken at its word.
  EXPECT_FALSE(FolderOf("gqa_untied", {{"lm_head.weight", 1}, {"model.embed_tokens.weight", 1}}).is_tied());
  // T5's configs say nothing of it: this one is of a model with a head of its own.
  EXPECT_TRUE(FolderOf("t5_few_buckets", {{"shared.weight", 1}}).is_tied());
  EXPECT_TRUE(FolderOf("t5_few_buckets", {{"shared.weight", 1}, {"lm_head.weight", 1}}).is_tied());
  EXPECT_FALSE(FolderOf("t5_few_buckets", {{"shared.weight", 1}, {"lm_head.weight", 2}}).is_tied());
  EXPECT_THROW(
      FolderOf("t5_few_buckets", {{"shared.weight", 1}, {"encoder.embed_tokens.weight", 2}}).is_tied(),
      Error);
}

TEST(Tying, WithoutWeightsTheConfigDecides) {
  TemporaryFolder folder;
  for (const auto& [name, tied] : {std::pair{"mha_tied", true}, std::pair{"t5_few_buckets", false}}) {
    write_file_atomically(folder / "config.json", read_text_file(reference(name) / "config.json"));
    EXPECT_EQ(locate_model(folder.path().string()).spec.tied_embeddings, tied) << name;
  }
}

}  // namespace
}  // namespace snug
