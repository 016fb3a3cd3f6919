// Layers from rows: what a family of tomorrow may list is written as its rows say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/decoder.h"
#include "model/rope.h"
#include "ops/table.h"

namespace snug {
namespace {

ModelSpec spec_of(std::vector<Layer> layers) {
  ModelSpec spec;
  spec.family = "llama";
  spec.source = "rows";
  spec.vocabulary = 97;
  spec.width = 24;
  spec.max_positions = 64;
  spec.decoder = std::move(layers);
  return spec;
}

Program forward_of(const ModelSpec& spec) {
  return build_decoder(spec, {.max_tokens = 8, .max_sequences = 2, .max_length_tokens = 8});
}

const Op& op_named(const Program& program, const std::string& name) {
  auto found =
      std::find_if(program.ops.begin(), program.ops.end(), [&](const Op& op) { return op.name == name; });
  EXPECT_NE(found, program.ops.end()) << name;
  return *found;
}

// Of the ops of the only layer, in order.
std::vector<std::string> layer_ops(const Program& program) {
  std::vector<std::string> names;
  for (const Op& op : program.ops) {
    if (op.name.starts_with("layers.0.")) {
      names.push_back(op.name.substr(std::string_view("layers.0.").size()));
    }
  }
  return names;
}

TEST(Layers, TheUsualOne) {
  EXPECT_EQ(layer_ops(forward_of(spec_of(repeat(usual_layer(4, 2, 6, 40), 1)))),
            (std::vector<std::string>{"attention_norm", "qkv", "rope", "attention", "attention_out",
                                      "attention_sum", "mlp_norm", "gate_up", "gated", "down", "mlp_sum"}));
}

// As Gemma 2 has them around each part, and OLMo 2 behind it.
TEST(Layers, NormsStandWhereTheRowHasNames) {
  std::vector<Layer> layers = repeat(usual_layer(4, 2, 6, 40), 1);
  layers[0].blocks[0].norm_after = "post_attention_layernorm";
  layers[0].blocks[1].norm_before = "";
  layers[0].blocks[1].norm_after = "post_feedforward_layernorm";
  Program program = forward_of(spec_of(layers));
  EXPECT_EQ(layer_ops(program),
            (std::vector<std::string>{"attention_norm", "qkv", "rope", "attention", "attention_out",
                                      "attention_norm_after", "attention_sum", "gate_up", "gated", "down",
                                      "mlp_norm_after", "mlp_sum"}));
  const Op& sum = op_named(program, "layers.0.mlp_sum");
  EXPECT_EQ(program.buffer(sum.inputs[1]).name, "layers.0.mlp_norm_after");
  const Op& norm = op_named(program, "layers.0.mlp_norm_after");
  EXPECT_EQ(program.buffer(norm.inputs[1]).name, "model.layers.0.post_feedforward_layernorm.weight");
}

// As Gemma 3 has it: local layers rotate otherwise than global ones; and some rotate nothing.
TEST(Layers, EachLayerHasItsOwnRotationWindowAndHeads) {
  DecoderLayer local = usual_layer(4, 2, 6, 40);
  local.attention.window = 5;
  DecoderLayer global = usual_layer(2, 1, 8, 60);
  global.attention.rope->theta = 1e6;
  DecoderLayer still = usual_layer(4, 4, 6, 40);
  still.attention.rope.reset();
  std::vector<Layer> layers = repeat(local, 4);
  layers[1].blocks = repeat(global, 1)[0].blocks;
  layers[2].blocks = repeat(still, 1)[0].blocks;
  Program program = forward_of(spec_of(layers));

  auto frequencies_of = [&](const std::string& layer) {
    return program.buffer(op_named(program, layer + "rope").inputs[2]);
  };
  EXPECT_EQ(frequencies_of("layers.0.").name, "inverse_frequencies");
  EXPECT_EQ(frequencies_of("layers.3.").name, "inverse_frequencies");
  EXPECT_EQ(frequencies_of("layers.1.").constant.size(), 4U);
  EXPECT_NEAR(frequencies_of("layers.1.").constant[1], std::pow(1e6, -2.0 / 8), 1e-6);
  EXPECT_TRUE(std::none_of(program.ops.begin(), program.ops.end(),
                           [](const Op& op) { return op.name == "layers.2.rope"; }));

  auto attributes_of = [&](const std::string& name) {
    return std::get<AttentionAttributes>(op_named(program, name).attributes);
  };
  EXPECT_EQ(attributes_of("layers.0.attention").window, 5);
  EXPECT_EQ(attributes_of("layers.1.attention").window, 0);
  EXPECT_EQ(attributes_of("layers.1.attention").head_dim, 8);
  EXPECT_EQ(attributes_of("layers.2.attention").kv_heads, 4);
}

// A layer may lack a part.
TEST(Layers, PartsAreAList) {
  std::vector<Layer> layers = repeat(usual_layer(4, 2, 6, 40), 2);
  layers[0].blocks.pop_back();
  layers[1].blocks.erase(layers[1].blocks.begin());
  Program program = forward_of(spec_of(layers));
  EXPECT_EQ(layer_ops(program), (std::vector<std::string>{"attention_norm", "qkv", "rope", "attention",
                                                          "attention_out", "attention_sum"}));
  EXPECT_EQ(op_named(program, "layers.1.mlp_norm").inputs[0],
            op_named(program, "layers.0.attention_sum").outputs[0]);
}

}  // namespace
}  // namespace snug
