// LoRA on a frozen base in fp8: what becomes 8 bits, what is refused, and that memory policies change no bit.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "support/qlora_case.h"
#include "support/train_fixture.h"

namespace snug {
namespace {

Recipe fp8_recipe(const char* name) {
  Recipe recipe = QloraCase(name).recipe;
  recipe.model.quantization = Quantization::none;
  recipe.model.compute = Compute::fp8;
  return recipe;
}

std::string refusal(const Recipe& recipe) {
  try {
    TrainFixture fixture(recipe);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Attention's and the last layer's stay whole: much of what fp8 does to a trained model's loss would come
// from them.
TEST(Fp8, OfTheLayersThatMayBeCodesThoseOfTheMlpsBeforeTheLastLayer) {
  auto formats_of = [](const Recipe& recipe) {
    TrainFixture fixture(recipe);
    std::set<std::string> names;
    for (const Buffer& buffer : fixture.plan.phase(kLoadPhase).program.buffers) {
      if (buffer.format.is_coded()) {
        names.insert(buffer.name);
      }
    }
    return names;
  };
  // Both models have two layers a stack; the encoder of T5 is followed by its decoder.
  for (const auto& [name, last_layer] : {std::pair{"llama", "layers.1."}, {"t5", "decoder.1."}}) {
    std::set<std::string> all = formats_of(QloraCase(name).recipe);
    std::set<std::string> expected;
    for (const std::string& weight : all) {
      bool of_mlp = weight.find("gate_up") != std::string::npos || weight.find("down") != std::string::npos;
      if (of_mlp && weight.find(last_layer) == std::string::npos) {
        expected.insert(weight);
      }
    }
    EXPECT_FALSE(expected.empty()) << name;
    EXPECT_LT(expected.size(), all.size()) << name;
    EXPECT_EQ(formats_of(fp8_recipe(name)), expected) << name;
  }
}

// A byte an element, four a row, and no maps.
TEST(Fp8, ThePlanCountsCodesAndScales) {
  TrainFixture fixture(fp8_recipe("llama"));
  int64_t elements = 0;
  int64_t rows = 0;
  for (const Buffer& buffer : fixture.plan.phase(kLoadPhase).program.buffers) {
    if (buffer.format.is_coded()) {
      elements += buffer.max_elements();
      rows += buffer.dims[0].max;
    }
  }
  const auto& bytes = fixture.plan.phase(kTrainPhase).role_bytes;
  EXPECT_GT(elements, 0);
  EXPECT_EQ(bytes[static_cast<size_t>(Role::weight_scales)], 4 * rows);
  EXPECT_EQ(bytes[static_cast<size_t>(Role::weight_maps)], 0);
}

TEST(Fp8, RecomputationChangesNoBit) {
  for (const char* name : {"llama", "t5"}) {
    QloraCase one(name);
    Recipe recipe = fp8_recipe(name);
    recipe.lora->lora_dropout = 0.2;
    recipe.model.dtype = DType::bf16;
    recipe.memory.recompute = {Recompute::none};
    TrainFixture kept(recipe, one.adapter);
    std::vector<float> losses = losses_of_curve(kept.runner, one.curve);
    EXPECT_LT(losses.back(), losses.front()) << name;
    for (Recompute policy : {Recompute::selective, Recompute::full}) {
      recipe.memory.recompute = {policy};
      TrainFixture redone(recipe, one.adapter);
      EXPECT_EQ(losses_of_curve(redone.runner, one.curve), losses) << name;
    }
  }
}

TEST(Fp8, RefusesWhatItCannotGoWith) {
  Recipe full = reference_recipe(reference_folder("gqa_untied"));
  full.model.compute = Compute::fp8;
  EXPECT_EQ(refusal(full),
            "model.compute is fp8, but without the section lora the weights themselves are trained, and 8 "
            "bits are too "
            "few to add small steps to: add lora: {}, or leave model.compute out");
  Recipe both = fp8_recipe("llama");
  both.model.quantization = Quantization::nf4;
  EXPECT_EQ(refusal(both),
            "model.compute is fp8 and model.quantization is nf4, but a weight is stored in one format: leave "
            "one of "
            "them out");
  ModelSpec one_layer = locate_model(reference_folder("gqa_untied")).spec;
  one_layer.decoder.resize(1);
  NoisyBackend backend;
  try {
    plan_training(fp8_recipe("llama"), one_layer, backend);
    ADD_FAILURE() << "nothing would be in fp8";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has one layer: leave model.compute out"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace snug
