// Each pass on a small Llama: what it adds, what it leaves alone, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "compile/adapters.h"
#include "compile/backward.h"
#include "compile/fuse.h"
#include "compile/kv_cache.h"
#include "compile/module_names.h"
#include "compile/phases.h"
#include "compile/recompute.h"
#include "compile/sum_order.h"
#include "ops/adapted_linear.h"
#include "ops/gated_linear.h"
#include "ops/table.h"
#include "program/operands.h"
#include "support/small_llama.h"

namespace snug {
namespace {

// Behind every pass the rules of programs hold.
Program verified(Program program) {
  verify_with_shapes(program);
  return program;
}

Program forward_of(const ModelSpec& spec, Goal goal = Goal::loss) {
  return build_forward(spec, {.goal = goal, .dtype = DType::f32, .max_tokens = 10, .max_sequences = 2});
}

int64_t count(const Program& program, OpKind kind) {
  return std::count_if(program.ops.begin(), program.ops.end(), [&](const Op& op) { return op.kind == kind; });
}

Program with_lora(const std::vector<std::string>& targets) {
  LoraSection lora;
  lora.r = 4;
  lora.target_modules = targets;
  return verified(add_adapters(forward_of(small_llama()), lora, false));
}

std::set<std::string> adapter_names(const Program& program) {
  std::set<std::string> names;
  for (const Buffer& buffer : program.buffers) {
    for (const TensorPart& part : buffer.parts) {
      if (buffer.role == Role::adapters) {
        names.insert(part.names.front());
      }
    }
  }
  return names;
}

TEST(Adapters, AllLinearMeansTheSevenLayersOfEachBlock) {
  Program program = with_lora({"all-linear"});
  EXPECT_EQ(adapter_names(program).size(), 3U * 7U * 2U);
  EXPECT_TRUE(adapter_names(program).contains("base_model.model.model.layers.2.mlp.down_proj.lora_B.weight"));
  // One down product a group of layers with a common input, one up product beside it.
  EXPECT_EQ(count(program, OpKind::lora_up), 3 * 4);
}

// As Python's re and PEFT's rules have it.
TEST(Adapters, ModulesByExpression) {
  auto selects = [](const std::vector<std::string>& names, const std::string& module) {
    return ModuleNames(names, "key").contains(module);
  };
  const std::string q = "model.layers.1.self_attn.q_proj";
  EXPECT_TRUE(selects({".*q_proj"}, q));
  EXPECT_TRUE(selects({R"(model\.layers\.\d+\.self_attn\.[qv]_proj)"}, q));
  EXPECT_FALSE(selects({R"(layers\.\d+\.self_attn\.q_proj)"}, q));  // the whole name, not its end
  EXPECT_FALSE(selects({".*(k|v)_proj"}, q));
  EXPECT_FALSE(selects({".*q_proj", "v_proj"}, q));  // in a list they are names
  EXPECT_THROW(selects({"(q_proj"}, q), Error);
  EXPECT_THROW(selects({R"(\A.*q_proj)"}, q), Error);
  EXPECT_THROW(selects({R"((a)\1*)"}, q), Error);
  EXPECT_FALSE(selects({"(.*.*)*x"}, q + std::string(200, 'a')));  // and does not take for ever

  ModuleValues<int64_t> ranks({{"q_proj", 2}, {R"(layers\.1\..*)", 3}, {"self_attn", 4}}, "key");
  EXPECT_EQ(ranks.of(q, 8), 2);
  EXPECT_EQ(ranks.of("model.layers.1.mlp.up_proj", 8), 3);
  EXPECT_EQ(ranks.of("model.layers.0.self_attn.v_proj", 8), 8);
  EXPECT_EQ(ranks.of("model.layers.0.self_attn.xq_proj", 8), 8);
}

TEST(Adapters, LayersOfOneRankAndScaleShareAProduct) {
  LoraSection lora;
  lora.rank_pattern = {{"v_proj", 2}, {"q_proj", 8}};
  lora.alpha_pattern = {{"up_proj", 1}};
  lora.exclude_modules = {"layers.0.self_attn.k_proj", "o_proj", "down_proj"};
  Program program = verified(add_adapters(forward_of(small_llama()), lora, false));
  // q with k apart from v, gate apart from up.
  EXPECT_EQ(count(program, OpKind::lora_up), 3 * 4);
  EXPECT_EQ(adapter_names(program).size(), 2U * (3U * 5U - 1U));
  lora.exclude_modules = {".*"};
  EXPECT_THROW(add_adapters(forward_of(small_llama()), lora, false), Error);
}

// Of each layer one pair whose rank is the sum, beside the trained one, and nothing of it is trained.
TEST(Adapters, FrozenOnesAreOnePairALayer) {
  LoraSection lowest;
  lowest.r = 8;
  LoraSection upper;
  upper.r = 2;
  upper.lora_alpha = 4;
  upper.target_modules = {"q_proj", "down_proj"};
  auto frozen = [&](const std::vector<LoraSection>& stacked) {
    return verified(add_frozen_adapters(forward_of(small_llama()), stacked));
  };
  std::map<std::string, int64_t> ranks;  // of a module
  Program program = verified(add_adapters(frozen({lowest, upper}), upper, true));
  int64_t trainable = 0;
  for (const Buffer& buffer : program.buffers) {
    trainable += buffer.trainable ? 1 : 0;
    EXPECT_FALSE(buffer.trainable && buffer.role != Role::adapters) << buffer.name;
    for (const TensorPart& part : buffer.parts) {
      if (buffer.role == Role::frozen_adapters && part.names.front().ends_with("lora_A.weight")) {
        ranks[part.names.front()] = part.rows;
      }
    }
  }
  EXPECT_EQ(trainable, 3 * 2 * 2);
  EXPECT_EQ(ranks.size(), 3U * 7U);
  EXPECT_EQ(ranks["base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"], 10);
  EXPECT_EQ(ranks["base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight"], 8);
  // One alone has its own scale, alpha / r; a stack was saved with scales multiplied in.
  auto scales = [&](const Program& of) {
    std::set<float> found;
    for (const Op& op : of.ops) {
      if (op.kind == OpKind::lora_up) {
        found.insert(attributes_of<LoraAttributes>(op).scale);
      }
    }
    return found;
  };
  EXPECT_EQ(scales(frozen({upper})), std::set<float>{2.0F});
  EXPECT_EQ(scales(frozen({lowest, upper})), std::set<float>{1.0F});
}

TEST(Adapters, TargetsByNameAndBySuffix) {
  EXPECT_EQ(adapter_names(with_lora({"q_proj", "v_proj"})).size(), 3U * 2U * 2U);
  EXPECT_EQ(adapter_names(with_lora({"self_attn.o_proj"})).size(), 3U * 2U);
  EXPECT_EQ(adapter_names(with_lora({"model.layers.1.mlp.up_proj"})),
            (std::set<std::string>{"base_model.model.model.layers.1.mlp.up_proj.lora_A.weight",
                                   "base_model.model.model.layers.1.mlp.up_proj.lora_B.weight"}));
}

TEST(Adapters, OnlyAdaptersAreTrainable) {
  Program program = with_lora({"all-linear"});
  for (const Buffer& buffer : program.buffers) {
    EXPECT_EQ(buffer.trainable, buffer.role == Role::adapters) << buffer.name;
  }
}

TEST(Adapters, AnUnknownTargetIsRefusedWithTheNearest) {
  try {
    with_lora({"q_proj", "down_porj"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("did you mean \"down_proj\"?"), std::string::npos) << text;
  }
}

TEST(Adapters, ScaleIsAlphaOverRankOrItsRoot) {
  EXPECT_FLOAT_EQ(lora_scale(32, 16, false), 2.0F);
  EXPECT_FLOAT_EQ(lora_scale(32, 16, true), 8.0F);
}

TEST(Backward, FrozenWeightsGetNoGradient) {
  Program program = verified(add_backward(with_lora({"all-linear"})));
  for (const Buffer& buffer : program.buffers) {
    if (buffer.role == Role::gradients) {
      EXPECT_NE(buffer.name.find(".lora_"), std::string::npos) << buffer.name;
    }
  }
  // The gradient op computes the loss too.
  EXPECT_EQ(count(program, OpKind::loss_head), 0);
  EXPECT_EQ(count(program, OpKind::loss_head_gradient), 1);
}

TEST(Backward, TheResidualStreamNeedsNoCopies) {
  Program forward = forward_of(small_llama());
  for (Buffer& buffer : forward.buffers) {
    buffer.trainable = is_model_parameter(buffer);
  }
  Program program = verified(add_backward(forward));
  EXPECT_EQ(count(program, OpKind::copy), 0);
  EXPECT_EQ(count(program, OpKind::add), count(forward, OpKind::add));
}

int64_t kept_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    bytes += buffer.role == Role::kept_activations ? buffer.max_bytes() : 0;
  }
  return bytes;
}

TEST(Recompute, FullKeepsOnlyTheInputsOfLayers) {
  Program backward = verified(add_backward(with_lora({"all-linear"})));
  Program none = verified(apply_recompute(backward, {}));
  Program selective = verified(apply_recompute(backward, {Recompute::selective}));
  Program full = verified(apply_recompute(backward, {Recompute::full}));
  EXPECT_LT(kept_bytes(selective), kept_bytes(none));
  EXPECT_LT(kept_bytes(full), kept_bytes(selective));
  for (const Buffer& buffer : full.buffers) {
    if (buffer.role == Role::kept_activations) {
      bool outside_layers = buffer.name == "embedding" || buffer.name == "final_norm";
      bool layer_output = buffer.name.ends_with(".mlp_sum");
      EXPECT_TRUE(outside_layers || layer_output) << buffer.name;
    }
  }
  // What nothing in the backward pass reads is not made again.
  EXPECT_EQ(count(full, OpKind::attention), 2 * 3);
  EXPECT_EQ(full.find("layers.0.down.again"), kNoBuffer);
  EXPECT_EQ(count(selective, OpKind::attention), 3);
}

TEST(Recompute, PoliciesApplyByLayer) {
  Program backward = verified(add_backward(with_lora({"all-linear"})));
  Program mixed = verified(apply_recompute(backward, {Recompute::none, Recompute::full, Recompute::none}));
  EXPECT_EQ(mixed.find("layers.0.qkv.again"), kNoBuffer);
  EXPECT_NE(mixed.find("layers.1.qkv.again"), kNoBuffer);
}

TEST(Recompute, KeepsWhatIsNamed) {
  Program backward = verified(add_backward(with_lora({"all-linear"})));
  Recompute attention_and_mlp{LayerValues{}.with(LayerValue::attention).with(LayerValue::gate_up)};
  Program program = verified(apply_recompute(backward, {attention_and_mlp}));
  for (const char* name : {"layers.1.attention", "layers.1.attention.lse", "layers.1.gate_up"}) {
    EXPECT_EQ(program.buffer(program.find(name)).role, Role::kept_activations) << name;
  }
  for (const char* name : {"layers.1.rotated", "layers.1.attention_sum", "layers.1.gated",
                           "layers.1.mlp_norm", "layers.1.qkv.lora_down"}) {
    EXPECT_EQ(program.buffer(program.find(name)).role, Role::activations) << name;
    EXPECT_NE(program.find(std::string(name) + ".again"), kNoBuffer) << name;
  }
  // What is kept is not made again, and nothing is made again for its sake.
  EXPECT_EQ(count(program, OpKind::attention), 3);
  EXPECT_EQ(program.find("layers.1.gate_up.again"), kNoBuffer);
  Program first_alone = verified(apply_recompute(backward, {attention_and_mlp, Recompute::none}));
  EXPECT_NE(first_alone.find("layers.0.rotated.again"), kNoBuffer);
  EXPECT_EQ(first_alone.find("layers.2.rotated.again"), kNoBuffer) << "layers that are not named keep all";
}

TEST(Fuse, JoinsEveryAdditionWithTheNormAfterIt) {
  Program program = verified(fuse_additions(forward_of(small_llama())));
  EXPECT_EQ(count(program, OpKind::add), 0);
  EXPECT_EQ(count(program, OpKind::add_rms_norm), 2 * 3);
  EXPECT_EQ(count(program, OpKind::rms_norm), 1);
}

// What a layer keeps: bit i stands for value i.
Recompute keeping(unsigned bits) {
  LayerValues values;
  for (int i = 0; i < kLayerValueCount; ++i) {
    values = (bits >> i & 1U) != 0 ? values.with(static_cast<LayerValue>(i)) : values;
  }
  return Recompute{values};
}

TEST(Fuse, GradientsOfAdaptersAreOneOpWhereTheyMeet) {
  using Out = LoraUpBackwardOutput;
  Program backward = verified(add_backward(with_lora({"all-linear"})));
  int64_t apart = count(backward, OpKind::lora_up_backward);
  Program program = verified(fuse_adapter_gradients(backward));
  // Of the down layer, whose dB waits where the gate is made again, they stay apart.
  EXPECT_EQ(count(program, OpKind::lora_up_backward), apart / 2 + 3);
  auto gradients_of = [&](const Program& made) {
    std::vector<std::pair<std::string, int64_t>> names;
    for (const Op& op : made.ops) {
      if (op.kind == OpKind::lora_up_backward) {
        int64_t outputs = (op.has_output(Out::ddown) ? 1 : 0) + (op.has_output(Out::db) ? 2 : 0);
        names.emplace_back(op.name, outputs);
        EXPECT_EQ(outputs == 3, op.name.find("down.lora_up") == std::string::npos) << op.name;
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  auto expected = gradients_of(program);
  for (unsigned kept = 0; kept < 1U << kLayerValueCount; ++kept) {
    Program again = put_adapters_first(fuse_gates_made_again(apply_recompute(backward, {keeping(kept)})));
    ASSERT_EQ(gradients_of(verified(fuse_adapter_gradients(again))), expected)
        << "other ops would be other bits: " << kept;
  }
  for (Op& op : backward.ops) {
    if (op.kind == OpKind::lora_up_backward) {
      std::get<LoraAttributes>(op.attributes).rank = kSmallRank + 1;
    }
  }
  EXPECT_EQ(count(fuse_adapter_gradients(backward), OpKind::lora_up_backward), apart / 2)
      << "each has the bits that it has by itself";
}

TEST(Fuse, GatesMadeAgainAreMadeByTheirGradients) {
  Program backward = verified(add_backward(with_lora({"all-linear"})));
  Program again = verified(apply_recompute(backward, {Recompute::full}));
  Program program = verified(fuse_gates_made_again(again));
  EXPECT_EQ(count(again, OpKind::gated_activation), 2 * 3);
  EXPECT_EQ(count(program, OpKind::gated_activation), 3);
  EXPECT_EQ(program.ops.size(), again.ops.size() - 3);
  BufferId gated = program.find("layers.1.gated.again");
  auto uses = [&](const std::vector<BufferId>& operands) {
    return std::count(operands.begin(), operands.end(), gated) > 0;
  };
  int readers = 0;
  bool is_made = false;
  for (const Op& op : program.ops) {
    if (uses(op.outputs)) {
      EXPECT_EQ(op.kind, OpKind::gated_activation_backward);
      EXPECT_EQ(op.outputs[1], gated);
      is_made = true;
    }
    readers += uses(op.inputs) ? 1 : 0;
    EXPECT_TRUE(is_made || readers == 0);
  }
  EXPECT_EQ(readers, 2) << "the down product made again, and the gradient of its A";
  EXPECT_EQ(count(verified(fuse_gates_made_again(backward)), OpKind::gated_activation), 3)
      << "kept: nothing to join";
}

// Whatever is made again, the same ops make it.
TEST(Fuse, ProductsOf16BitsTakeTheGatesBehindThem) {
  using In = GatedLinearBackwardInput;
  ForwardOptions options{.goal = Goal::loss, .dtype = DType::bf16, .max_tokens = 10, .max_sequences = 2};
  LoraSection lora;
  lora.r = 4;
  lora.target_modules = {"all-linear"};
  Program adapted = add_adapters(build_forward(small_llama(), options), lora, false);
  Program full = build_forward(small_llama(), options);
  for (Buffer& buffer : full.buffers) {
    buffer.trainable = is_model_parameter(buffer);
  }
  for (bool has_adapters : {true, false}) {
    Program backward = add_backward(has_adapters ? adapted : full);
    std::set<BufferId> weights;
    for (const Op& op : backward.ops) {
      if (op.kind == OpKind::gated_activation) {
        weights.insert(backward.find(op.name.substr(0, op.name.rfind('.')) + ".gate_up.weight"));
      }
    }
    ASSERT_EQ(weights.size(), 3U);
    for (unsigned kept = 0; kept < 1U << kLayerValueCount; ++kept) {
      LayerValues values;
      for (int i = 0; i < kLayerValueCount; ++i) {
        values = (kept >> i & 1U) != 0 ? values.with(static_cast<LayerValue>(i)) : values;
      }
      Program apart =
          fuse_gates_made_again(put_adapters_first(apply_recompute(backward, {Recompute{values}})));
      Program joined = verified(fuse_gated_products(fuse_adapted_products(std::move(apart))));
      SCOPED_TRACE(kept);
      ASSERT_EQ(count(joined, OpKind::gated_linear_backward), 3);
      ASSERT_EQ(count(joined, OpKind::gated_activation) + count(joined, OpKind::gated_activation_backward),
                0);
      bool keeps_product = (kept >> static_cast<int>(LayerValue::gate_up) & 1U) != 0;
      ASSERT_EQ(count(joined, OpKind::gated_linear), keeps_product ? 3 : 6);
      ASSERT_TRUE(std::none_of(joined.ops.begin(), joined.ops.end(), [&](const Op& op) {
        return op.kind == OpKind::linear && weights.contains(op.inputs[1]);
      })) << "another kernel would make it again";
      ASSERT_TRUE(std::all_of(joined.ops.begin(), joined.ops.end(), [&](const Op& op) {
        bool is_joined = op.kind == OpKind::gated_linear || op.kind == OpKind::gated_linear_backward;
        return !is_joined || has_adapter(product_of(op)) == has_adapters;
      })) << "an adapter's share would be rounded otherwise";
      ASSERT_EQ(count(joined, OpKind::lora_up), 0);
    }
    Program program = verified(fuse_gated_products(fuse_adapted_products(put_adapters_first(backward))));
    for (const Op& op : program.ops) {
      EXPECT_EQ(op.kind == OpKind::gated_linear_backward && op.has_input(In::dgated), false)
          << op.name << ": the product has no buffer";
      EXPECT_EQ(op.kind == OpKind::gated_linear && op.accumulates_output(0), false) << op.name;
    }
    Program by_itself = verified(fuse_gated_products(put_adapters_first(backward)));
    for (const Op& op : by_itself.ops) {
      // What adapters have made of the gradient is added to.
      if (op.kind == OpKind::gated_linear_backward) {
        EXPECT_EQ(op.has_input(In::dgated), has_adapters) << op.name;
      } else if (op.kind == OpKind::gated_linear) {
        EXPECT_EQ(op.accumulates_output(0), has_adapters) << op.name;
      }
    }
  }
  Program wide = add_backward(with_lora({"all-linear"}));
  EXPECT_EQ(verified(fuse_gated_products(wide)).ops.size(), wide.ops.size()) << "fp32 stays as it is";
}

// How often each adapter's matrix is a factor of something that is made of activations or gradients.
std::map<std::string, int> count_adapter_factors(const Program& program) {
  std::map<std::string, int> uses;
  for (const Op& op : program.ops) {
    for (BufferId id : op.inputs) {
      bool is_factor = id != kNoBuffer && (program.buffer(id).role == Role::adapters ||
                                           program.buffer(id).role == Role::frozen_adapters);
      uses[is_factor ? program.buffer(id).name : ""] += is_factor ? 1 : 0;
    }
  }
  return uses;
}

// Of several shares of one sum the first belongs to the product that is added to it, and to nothing else.
TEST(Fuse, SharesOfStackedAdaptersAreAddedOnce) {
  ForwardOptions options{.goal = Goal::loss, .dtype = DType::bf16, .max_tokens = 10, .max_sequences = 2};
  LoraSection lora;
  lora.r = 4;
  lora.target_modules = {"all-linear"};
  Program stacked =
      add_adapters(add_frozen_adapters(build_forward(small_llama(), options), {lora}), lora, false);
  Program apart = put_adapters_first(add_backward(std::move(stacked)));
  Program joined = verified(fuse_adapted_products(apart));
  EXPECT_LT(joined.ops.size(), apart.ops.size());
  EXPECT_EQ(count_adapter_factors(joined), count_adapter_factors(apart));
}

// The ops that write or add to a buffer, in order, as "=lora_up" and "+linear".
std::string writers_of(const Program& program, const std::string& buffer) {
  std::string text;
  for (const Op& op : program.ops) {
    if (op.outputs[0] == program.find(buffer)) {
      text += (op.accumulates_output(0) ? " +" : " =") + std::string(row_of(op.kind).name);
    }
  }
  return text;
}

TEST(SumOrder, AdaptersOfAllColumnsWriteAndTheBaseAdds) {
  Program program = verified(put_adapters_first(with_lora({"all-linear"})));
  for (const char* buffer : {"layers.0.qkv", "layers.1.gate_up", "layers.2.down"}) {
    EXPECT_EQ(writers_of(program, buffer), " =lora_up +linear");
  }
  EXPECT_EQ(writers_of(program, "layers.0.qkv.lora_down"), " =linear");
}

TEST(SumOrder, ColumnsWithoutAdaptersAreWrittenByTheBase) {
  Program program = verified(put_adapters_first(with_lora({"q_proj", "down_proj"})));
  EXPECT_EQ(writers_of(program, "layers.0.qkv"), " =linear +lora_up");
  EXPECT_EQ(writers_of(program, "layers.0.down"), " =lora_up +linear");
}

TEST(SumOrder, OneOfSeveralAdaptersWrites) {
  LoraSection lora;
  lora.r = 2;
  Program frozen = verified(add_frozen_adapters(forward_of(small_llama()), {lora}));
  Program program = verified(put_adapters_first(verified(add_adapters(std::move(frozen), lora, true))));
  EXPECT_EQ(writers_of(program, "layers.0.down"), " =lora_up +linear +lora_up");
}

// What a gradient adds to comes in the order that it had: there the adapter's is first as it is.
TEST(SumOrder, HoldsForWhatIsMadeAgain) {
  Program backward = verified(add_backward(with_lora({"all-linear"})));
  Program program = verified(put_adapters_first(verified(apply_recompute(backward, {Recompute::full}))));
  EXPECT_EQ(writers_of(program, "layers.1.gate_up"), " =lora_up +linear");
  EXPECT_EQ(writers_of(program, "layers.1.gate_up.again"), " =lora_up +linear");
}

TEST(KvCache, EveryAttentionReadsItsCache) {
  Program program = verified(add_kv_cache(forward_of(small_llama(), Goal::logits), 40));
  EXPECT_EQ(count(program, OpKind::cache_write), 3);
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::attention) {
      const Buffer& cache = program.buffer(op.inputs[1]);
      EXPECT_EQ(cache.role, Role::kv_cache);
      EXPECT_EQ(cache.dims[0].max, 40);
    }
  }
}

TEST(Phases, RecomputeListsMustMatchTheLayers) {
  Recipe recipe = small_recipe();
  recipe.memory.recompute = {Recompute::full, Recompute::full};
  try {
    compile_training(recipe, small_llama(), recipe_limits(recipe, small_llama()));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("3 layers"), std::string::npos) << error.what();
  }
}

TEST(Phases, PrintAsText) {
  std::string text = to_text(forward_of(small_llama()));
  EXPECT_NE(text.find("buffer layers.0.qkv.weight fp32 [48, 24] base weights"), std::string::npos) << text;
  EXPECT_NE(text.find("layers.2.down: layers.2.gated, layers.2.down.weight -> layers.2.down"),
            std::string::npos);
}

}  // namespace
}  // namespace snug
