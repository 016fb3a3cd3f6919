// Random models: what lies in the files, value by value.
#include "train/synth.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/threads.h"
#include "io/safetensors.h"
#include "support/temporary_folder.h"
#include "train/initialize.h"

namespace snug {
namespace {

// Its embeddings, 33,001 x 64 of them, are more than is made and written at once (2^21 values).
SynthOptions small_model(DType dtype) {
  return {.config = {{"model_type", "llama"},
                     {"vocab_size", 33'001},
                     {"hidden_size", 64},
                     {"intermediate_size", 96},
                     {"num_hidden_layers", 1},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"initializer_range", 0.02},
                     {"tie_word_embeddings", true}},
          .source = "small model",
          .seed = 5,
          .dtype = dtype};
}

template <typename Value>
std::vector<Value> values_of(const TensorSource& files, const std::string& name) {
  const SourceTensor& tensor = files.find(name);
  std::vector<Value> values(static_cast<size_t>(tensor.elements()));
  tensor.read(0, tensor.elements(), tensor.dtype(), values.data());
  return values;
}

// Against the numbers of one generator one after the other; the first and last bits of each piece come from
// Philox and the quantile in Python.
TEST(Synth, EveryValueHasItsPlaceWhateverTheThreads) {
  Rng walked = tensor_rng(5, "model.embed_tokens.weight");
  std::vector<uint16_t> expected;
  for (int64_t i = 0; i < 33'001 * 64; ++i) {
    expected.push_back(to_bf16(0.02F * walked.normal()).bits);
  }
  EXPECT_EQ(expected[0], 0x3b2b);
  EXPECT_EQ(expected[2'097'151], 0x3c58);
  EXPECT_EQ(expected[2'097'152], 0x3b0e);
  EXPECT_EQ(expected[2'112'063], 0xb998);
  for (int threads : {1, 2, 5}) {
    set_thread_count(threads);
    TemporaryFolder folder;
    write_synthetic_model(small_model(DType::bf16), folder.path(), [](int64_t, int64_t) {});
    TensorSource files = open_safetensors(folder.path());
    EXPECT_EQ(values_of<uint16_t>(files, "model.embed_tokens.weight"), expected) << threads;
    EXPECT_EQ(values_of<uint16_t>(files, "model.norm.weight"), std::vector<uint16_t>(64, 0x3f80));
  }
  set_thread_count(0);
}

TEST(Synth, TensorsHaveStreamsOfTheirOwnInEveryDtype) {
  TemporaryFolder folder;
  write_synthetic_model(small_model(DType::f32), folder.path(), [](int64_t, int64_t) {});
  TensorSource files = open_safetensors(folder.path());
  for (const char* name :
       {"model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight"}) {
    Rng walked = tensor_rng(5, name);
    std::vector<float> expected(32 * 64);
    for (float& value : expected) {
      value = 0.02F * walked.normal();
    }
    EXPECT_EQ(values_of<float>(files, name), expected);
  }
}

}  // namespace
}  // namespace snug
