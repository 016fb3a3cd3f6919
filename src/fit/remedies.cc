// The lists.
#include "fit/remedies.h"

#include <algorithm>
#include <array>

#include "compile/batch_limits.h"
#include "compile/coded_weights.h"
#include "compile/phases.h"

namespace snug {
namespace {

constexpr std::array kKnobs = {
    Knob{"training.per_device_eval_batch_size", Sameness::rounding,
         [](const Recipe& recipe) { return recipe.training.per_device_eval_batch_size.has_value(); },
         [](Recipe& recipe) { recipe.training.per_device_eval_batch_size.reset(); },
         "evaluations take no more than training does"},
    Knob{"memory.recompute", Sameness::bits,
         [](const Recipe& recipe) { return !recipe.memory.recompute.empty(); },
         [](Recipe& recipe) { recipe.memory.recompute.clear(); },
         "the backward pass computes again what is not kept"},
    Knob{"memory.micro_batch_tokens", Sameness::rounding,
         [](const Recipe& recipe) { return recipe.memory.micro_batch_tokens.has_value(); },
         [](Recipe& recipe) { recipe.memory.micro_batch_tokens.reset(); },
         "a step's sequences go through the model in smaller pieces"},
    Knob{"memory.loss_chunk_tokens", Sameness::rounding,
         [](const Recipe& recipe) { return recipe.memory.loss_chunk_tokens > 0; },
         [](Recipe& recipe) { recipe.memory.loss_chunk_tokens = 0; },
         "fewer rows of logits are held at once"},
};

bool can_be_coded(const Recipe& recipe, const ModelSpec& spec) {
  return recipe.lora && recipe.stage.start != StageStart::merge_first &&
         !weight_format(recipe.model, spec).is_coded();
}

constexpr std::array kOptIns = {
    OptIn{"training.optimizer_states",
          [](const Recipe& recipe, const ModelSpec&) {
            return recipe.training.optim == Optimizer::adamw &&
                   recipe.training.optimizer_states == OptimizerStates::fp32;
          },
          [](Recipe& recipe) { recipe.training.optimizer_states = OptimizerStates::bf16; },
          "AdamW's moments in bf16 and no fp32 rest of bf16 weights, rounded stochastically"},
    OptIn{"training.optimizer_states",
          [](const Recipe& recipe, const ModelSpec&) {
            return recipe.training.optim == Optimizer::adamw &&
                   recipe.training.optimizer_states != OptimizerStates::eight_bits;
          },
          [](Recipe& recipe) { recipe.training.optimizer_states = OptimizerStates::eight_bits; },
          "AdamW's moments as codes of 8 bits, and no fp32 rest of bf16 weights, which are rounded "
          "stochastically"},
    OptIn{"training.optimizer_states",
          [](const Recipe& recipe, const ModelSpec& spec) {
            return recipe.training.optim == Optimizer::adafactor &&
                   recipe.training.optimizer_states == OptimizerStates::fp32 &&
                   run_dtype(recipe, spec) == DType::bf16;
          },
          [](Recipe& recipe) { recipe.training.optimizer_states = OptimizerStates::bf16; },
          "no fp32 rest of bf16 weights, which are rounded stochastically"},
    OptIn{"training.gradient_dtype",
          [](const Recipe& recipe, const ModelSpec& spec) {
            return !recipe.lora && recipe.training.gradient_dtype == DType::f32 &&
                   run_dtype(recipe, spec) == DType::bf16;
          },
          [](Recipe& recipe) { recipe.training.gradient_dtype = DType::bf16; },
          "gradients of matrices rounded to bf16, once a micro-batch"},
    OptIn{"model.dtype",
          [](const Recipe& recipe, const ModelSpec& spec) { return run_dtype(recipe, spec) == DType::f32; },
          [](Recipe& recipe) { recipe.model.dtype = DType::bf16; },
          "weights and computation in bf16 instead of fp32"},
    OptIn{"model.quantization", can_be_coded,
          [](Recipe& recipe) { recipe.model.quantization = Quantization::int8; },
          "frozen linear layers rounded to 8 bits"},
    OptIn{"model.quantization", can_be_coded,
          [](Recipe& recipe) { recipe.model.quantization = Quantization::nf4_double; },
          "frozen linear layers rounded to 4 bits (QLoRA)"},
};

// Lengths that keep tiles full, the nearest first.
std::vector<int64_t> shorter_than(int64_t length) {
  constexpr int64_t kTile = 64;
  std::vector<int64_t> values;
  for (int64_t value = (length - 1) / kTile * kTile; value > 0; value -= kTile) {
    values.push_back(value);
  }
  return values;
}

// Ranks that the matrix units like, the nearest first.
std::vector<int64_t> ranks_below(int64_t rank) {
  constexpr int64_t kTile = 8;
  std::vector<int64_t> values;
  for (int64_t value = rank - 1; value > 0; --value) {
    bool is_power = (value & (value - 1)) == 0;
    if (value % kTile == 0 || is_power) {
      values.push_back(value);
    }
  }
  return values;
}

constexpr int64_t kNewRank = 16;

constexpr std::array kReductions = {
    Reduction{"data.max_length",
              [](const Recipe& recipe, const ModelSpec&) { return shorter_than(recipe.data.max_length); },
              [](Recipe& recipe, int64_t value) { recipe.data.max_length = value; },
              "longer sequences are cut"},
    Reduction{"data.max_target_length",
              [](const Recipe& recipe, const ModelSpec& spec) {
                return spec.has_encoder() ? shorter_than(decoder_length(recipe, true))
                                          : std::vector<int64_t>();
              },
              [](Recipe& recipe, int64_t value) { recipe.data.max_target_length = value; },
              "longer answers are cut"},
    Reduction{"lora.r",
              [](const Recipe& recipe, const ModelSpec&) {
                return recipe.lora ? ranks_below(recipe.lora->r) : std::vector<int64_t>();
              },
              [](Recipe& recipe, int64_t value) { recipe.lora->r = value; },
              "adapters of a smaller rank; lora_alpha stays, so that they count for more"},
    // Of stages, the others would have to follow.
    Reduction{"lora",
              [](const Recipe& recipe, const ModelSpec&) {
                return recipe.lora || !recipe.stage.name.empty() ? std::vector<int64_t>()
                                                                 : std::vector<int64_t>{kNewRank};
              },
              [](Recipe& recipe, int64_t value) {
                recipe.lora = LoraSection{.r = value, .lora_alpha = 2.0 * static_cast<double>(value)};
                recipe.training.gradient_dtype = DType::f32;  // those of adapters are small
              },
              "adapters are trained instead of all weights"},
};

template <typename List>
bool holds_key(const List& list, std::string_view key) {
  return std::any_of(list.begin(), list.end(), [&](const auto& one) { return one.key == key; });
}

}  // namespace

std::string_view name_of(Sameness sameness) {
  constexpr std::array<std::string_view, 4> kNames = {"the same bits", "the same to rounding",
                                                      "other numerics", "another experiment"};
  return kNames[static_cast<size_t>(sameness)];
}

std::span<const Knob> knobs() {
  return kKnobs;
}

void open_all(Recipe& recipe) {
  for (const Knob& knob : kKnobs) {
    knob.open(recipe);
  }
}

std::span<const OptIn> opt_ins() {
  return kOptIns;
}

std::span<const Reduction> reductions() {
  return kReductions;
}

std::vector<std::string_view> keys_to_allow() {
  std::vector<std::string_view> keys;
  auto add = [&](const auto& list) {
    for (const auto& one : list) {
      if (std::find(keys.begin(), keys.end(), one.key) == keys.end()) {
        keys.push_back(one.key);
      }
    }
  };
  add(kOptIns);
  add(kReductions);
  return keys;
}

Sameness sameness_of(std::string_view key) {
  for (const Knob& knob : kKnobs) {
    if (knob.key == key) {
      return knob.sameness;
    }
  }
  return holds_key(kOptIns, key) ? Sameness::numerics : Sameness::experiment;
}

}  // namespace snug
