// LoRA on weights of codes: against peft on what bitsandbytes quantised (tools/make_qlora_references.py), and
// that memory policies change no bit.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "support/qlora_case.h"
#include "support/train_fixture.h"

namespace snug {
namespace {

constexpr double kTolerance = 1e-4;  // fp32, 20 steps

TEST(Qlora, FollowsPeftAndBitsandbytes) {
  for (const std::string& name : kQloraCases) {
    QloraCase one(name);
    TrainFixture fixture(one.recipe, one.adapter);
    EXPECT_EQ(one.curve["steps"].size(), 20U);
    EXPECT_LT(largest_difference(losses_of_curve(fixture.runner, one.curve), one.curve), kTolerance) << name;
  }
}

TEST(Qlora, RecomputationChangesNoBit) {
  for (const char* name : {"llama", "t5", "llama_int8"}) {
    QloraCase one(name);
    one.recipe.lora->lora_dropout = 0.2;
    one.recipe.model.dtype = DType::bf16;
    one.recipe.memory.recompute = {Recompute::none};
    TrainFixture kept(one.recipe, one.adapter);
    std::vector<float> losses = losses_of_curve(kept.runner, one.curve);
    for (Recompute policy : {Recompute::selective, Recompute::full}) {
      one.recipe.memory.recompute = {policy};
      TrainFixture redone(one.recipe, one.adapter);
      EXPECT_EQ(losses_of_curve(redone.runner, one.curve), losses) << name;
    }
  }
}

// All tensors of the model that the plan holds as codes.
std::set<std::string> coded_tensors(const Plan& plan) {
  std::set<std::string> names;
  for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {
    if (buffer.format.is_coded()) {
      for (const TensorPart& part : buffer.parts) {
        names.insert(part.names.front());
      }
    }
  }
  return names;
}

// What transformers makes a Linear4bit of: no embedding, head, norm, nor T5's wo.
TEST(Qlora, TheSameLayersAsHuggingFace) {
  auto names_of = [](const char* name) { return coded_tensors(TrainFixture(QloraCase(name).recipe).plan); };
  std::set<std::string> llama;
  for (const char* layer : {"0", "1"}) {
    for (const char* module : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      llama.insert("model.layers." + std::string(layer) + "." + module + ".weight");
    }
  }
  EXPECT_EQ(names_of("llama"), llama);
  std::set<std::string> t5 = names_of("t5");
  EXPECT_TRUE(t5.contains("encoder.block.0.layer.1.DenseReluDense.wi_0.weight"));
  EXPECT_FALSE(t5.contains("encoder.block.0.layer.1.DenseReluDense.wo.weight"));
  EXPECT_FALSE(t5.contains("lm_head.weight"));
  EXPECT_FALSE(t5.contains("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"));
}

// The plan's rows: codes, scales and maps, by the bits that the formats take.
TEST(Qlora, TheReportSplitsWeights) {
  Recipe recipe = QloraCase("llama").recipe;
  TrainFixture fixture(recipe);
  const auto& rows = fixture.plan.phase(kTrainPhase).role_bytes;
  auto row = [&](Role role) { return rows[static_cast<size_t>(role)]; };
  EXPECT_EQ(row(Role::weight_maps), 2 * 7 * (16 + 256) * 4);
  EXPECT_GT(row(Role::weight_scales), 0);
  recipe.model.quantization = Quantization::none;
  TrainFixture plain(recipe);
  EXPECT_EQ(plain.plan.phase(kTrainPhase).role_bytes[static_cast<size_t>(Role::weight_maps)], 0);
  EXPECT_EQ(plain.plan.parameters, fixture.plan.parameters);
}

TEST(Qlora, NeedsAdapters) {
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.model.quantization = Quantization::nf4;
  try {
    TrainFixture fixture(recipe);
    FAIL() << "codes cannot be trained";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "model.quantization is nf4, but without the section lora the weights themselves are trained, "
              "and codes cannot be: add lora: {}, or write model.quantization: none");
  }
}

}  // namespace
}  // namespace snug
