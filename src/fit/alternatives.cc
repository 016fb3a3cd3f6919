// Opening what was written, then computing otherwise.
#include "fit/alternatives.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "compile/coded_weights.h"
#include "compile/phases.h"
#include "fit/choice.h"
#include "recipe/keys.h"
#include "recipe/write.h"

namespace snug {
namespace {

// A key that fits a run into memory, and may be left to the program.
struct Knob {
  bool (*is_written)(const Recipe& recipe);
  void (*open)(Recipe& recipe);
};

// In the order in which they are opened: what changes no bit first.
constexpr std::array kKnobs = {
    Knob{[](const Recipe& recipe) { return recipe.training.per_device_eval_batch_size.has_value(); },
         [](Recipe& recipe) { recipe.training.per_device_eval_batch_size.reset(); }},
    Knob{[](const Recipe& recipe) { return !recipe.memory.recompute.empty(); },
         [](Recipe& recipe) { recipe.memory.recompute.clear(); }},
    Knob{[](const Recipe& recipe) { return recipe.memory.micro_batch_tokens.has_value(); },
         [](Recipe& recipe) { recipe.memory.micro_batch_tokens.reset(); }},
    Knob{[](const Recipe& recipe) { return recipe.memory.loss_chunk_tokens > 0; },
         [](Recipe& recipe) { recipe.memory.loss_chunk_tokens = 0; }},
};

// What takes less memory by computing otherwise. Of several for one key, the last takes least.
struct OptIn {
  std::string_view key;
  bool (*applies)(const Recipe& recipe, const ModelSpec& spec);
  void (*apply)(Recipe& recipe);
  const char* changes;
};

bool can_be_coded(const Recipe& recipe, const ModelSpec& spec) {
  return recipe.lora && recipe.stage.start != StageStart::merge_first &&
         !weight_format(recipe.model.quantization, spec).is_coded();
}

constexpr std::array kOptIns = {
    OptIn{"training.optimizer_states",
          [](const Recipe& recipe, const ModelSpec&) {
            return recipe.training.optim == Optimizer::adamw &&
                   recipe.training.optimizer_states == OptimizerStates::fp32;
          },
          [](Recipe& recipe) { recipe.training.optimizer_states = OptimizerStates::bf16; },
          "AdamW's moments in bf16 and no fp32 copy of bf16 weights, rounded stochastically"},
    OptIn{"training.optimizer_states",
          [](const Recipe& recipe, const ModelSpec&) {
            return recipe.training.optim == Optimizer::adamw &&
                   recipe.training.optimizer_states != OptimizerStates::eight_bits;
          },
          [](Recipe& recipe) { recipe.training.optimizer_states = OptimizerStates::eight_bits; },
          "AdamW's moments as codes of 8 bits, and no fp32 copy of bf16 weights, which are rounded "
          "stochastically"},
    OptIn{"training.optimizer_states",
          [](const Recipe& recipe, const ModelSpec& spec) {
            return recipe.training.optim == Optimizer::adafactor &&
                   recipe.training.optimizer_states == OptimizerStates::fp32 &&
                   run_dtype(recipe, spec) == DType::bf16;
          },
          [](Recipe& recipe) { recipe.training.optimizer_states = OptimizerStates::bf16; },
          "no fp32 copy of bf16 weights, which are rounded stochastically"},
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

class Search {
 public:
  Search(const Recipe& recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits)
      : recipe_(recipe), spec_(spec), device_(device), limits_(limits) {}

  // One of the keys that are written left open, or else all of them.
  std::vector<Alternative> same() const {
    std::vector<Alternative> found;
    std::vector<Recipe> candidates;
    Recipe all_open = recipe_;
    for (const Knob& knob : kKnobs) {
      if (knob.is_written(recipe_)) {
        candidates.push_back(recipe_);
        knob.open(candidates.back());
        knob.open(all_open);
      }
    }
    for (const Recipe& candidate : candidates) {
      append_if_it_fits(candidate, {}, found);
    }
    if (found.empty() && candidates.size() > 1) {
      append_if_it_fits(all_open, {}, found);
    }
    return found;
  }

  std::vector<Alternative> opt_ins() const {
    std::vector<OptIn> applicable;
    for (const OptIn& one : kOptIns) {
      if (one.applies(recipe_, spec_)) {
        applicable.push_back(one);
      }
    }
    std::vector<Alternative> found;
    for (const OptIn& one : applicable) {
      append_with({one}, found);
    }
    if (found.empty() && applicable.size() > 1) {
      append_with(last_of_each_key(applicable), found);
    }
    return found;
  }

 private:
  static std::vector<OptIn> last_of_each_key(const std::vector<OptIn>& all) {
    std::vector<OptIn> last;
    for (const OptIn& one : all) {
      std::erase_if(last, [&](const OptIn& other) { return other.key == one.key; });
      last.push_back(one);
    }
    return last;
  }

  bool append_if_it_fits(const Recipe& candidate, const std::vector<std::string>& changes,
                         std::vector<Alternative>& found) const {
    Plan plan = choose_plan(candidate, spec_, device_, limits_).plan;
    if (plan.fits()) {
      found.push_back({settings_of(candidate), plan.peak_bytes(), changes});
    }
    return plan.fits();
  }

  // As the recipe is otherwise, or else with all that may be left open.
  void append_with(const std::vector<OptIn>& chosen, std::vector<Alternative>& found) const {
    Recipe candidate = recipe_;
    std::vector<std::string> changes;
    for (const OptIn& one : chosen) {
      one.apply(candidate);
      changes.emplace_back(one.changes);
    }
    if (append_if_it_fits(candidate, changes, found)) {
      return;
    }
    bool is_open = true;
    for (const Knob& knob : kKnobs) {
      is_open = is_open && !knob.is_written(recipe_);
      knob.open(candidate);
    }
    if (!is_open) {
      append_if_it_fits(candidate, changes, found);
    }
  }

  // The keys in which a candidate differs from the recipe.
  std::vector<std::string> settings_of(const Recipe& candidate) const {
    std::vector<std::string> settings;
    for (const RecipeKey& key : recipe_keys()) {
      bool is_absent = key.section() == "lora" && !recipe_.lora;
      if (!is_absent && key.print(recipe_) != key.print(candidate)) {
        settings.push_back(fmt::format("{}={}", key.name, yaml_value(key.print(candidate))));
      }
    }
    return settings;
  }

  const Recipe& recipe_;
  const ModelSpec& spec_;
  const Device& device_;
  const LimitsOf& limits_;
};

}  // namespace

Alternatives find_alternatives(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                               const LimitsOf& limits) {
  Search search(recipe, spec, device, limits);
  return {search.same(), search.opt_ins()};
}

}  // namespace snug
