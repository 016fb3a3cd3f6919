// Trying choices in the order of what they cost.
#include "fit/alternatives.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "compile/phases.h"
#include "fit/choice.h"
#include "plan/training.h"
#include "recipe/keys.h"
#include "recipe/write.h"

namespace snug {
namespace {

constexpr size_t kEnoughAlternatives = 3;

constexpr std::array kPolicies = {Recompute::none, Recompute::selective, Recompute::full};

// What takes less memory by computing otherwise.
struct OptIn {
  bool (*applies)(const Recipe& recipe, const ModelSpec& spec);
  void (*apply)(Recipe& recipe);
  const char* changes;
};

constexpr std::array kOptIns = {
    OptIn{[](const Recipe& recipe, const ModelSpec&) {
            return recipe.training.optim == Optimizer::adamw &&
                   recipe.training.optimizer_states == OptimizerStates::fp32;
          },
          [](Recipe& recipe) { recipe.training.optimizer_states = OptimizerStates::bf16; },
          "AdamW's moments in bf16 and no fp32 copy of bf16 weights, rounded stochastically"},
    OptIn{[](const Recipe& recipe, const ModelSpec&) {
            return recipe.training.optim == Optimizer::adamw &&
                   recipe.training.optimizer_states != OptimizerStates::eight_bits;
          },
          [](Recipe& recipe) { recipe.training.optimizer_states = OptimizerStates::eight_bits; },
          "AdamW's moments as codes of 8 bits, and no fp32 copy of bf16 weights, which are rounded "
          "stochastically"},
    OptIn{[](const Recipe& recipe, const ModelSpec& spec) {
            return recipe.training.optim == Optimizer::adafactor &&
                   recipe.training.optimizer_states == OptimizerStates::fp32 &&
                   run_dtype(recipe, spec) == DType::bf16;
          },
          [](Recipe& recipe) { recipe.training.optimizer_states = OptimizerStates::bf16; },
          "no fp32 copy of bf16 weights, which are rounded stochastically"},
    OptIn{[](const Recipe& recipe, const ModelSpec& spec) { return run_dtype(recipe, spec) == DType::f32; },
          [](Recipe& recipe) { recipe.model.dtype = DType::bf16; },
          "weights and computation in bf16 instead of fp32"},
};

class Search {
 public:
  Search(const Recipe& recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits)
      : recipe_(recipe), spec_(spec), device_(device), limits_(limits) {}

  // Free choices that make `base` fit, no more than `most`.
  std::vector<Alternative> free_choices(const Recipe& base, size_t most) const {
    std::vector<Alternative> found;
    for (int64_t tokens : micro_batch_sizes(base, spec_, limits_)) {
      for (Recompute policy : kPolicies) {
        Recipe candidate = base;
        if (tokens != micro_batch_tokens(base)) {
          candidate.memory.micro_batch_tokens = tokens;
        }
        candidate.memory.recompute = {policy};
        if (std::optional<Plan> plan = fitting_plan(candidate)) {
          found.push_back({settings_of(candidate), plan->peak_bytes(), {}});
          break;  // a stronger policy at the same size would only be slower
        }
      }
      if (found.size() == most) {
        break;
      }
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
      append_first({one}, found);
    }
    if (found.empty() && applicable.size() > 1) {
      append_first(applicable, found);
    }
    return found;
  }

 private:
  // The size of an evaluation's batch is left open only if it is what does not fit.
  std::optional<Plan> fitting_plan(Recipe& candidate) const {
    Plan plan = plan_training(candidate, spec_, device_, limits_);
    if (!plan.fits() && candidate.training.per_device_eval_batch_size &&
        plan.largest_phase().name() == kEvaluatePhase) {
      candidate.training.per_device_eval_batch_size.reset();
      plan = plan_training(candidate, spec_, device_, limits_);
    }
    return plan.fits() ? std::optional(std::move(plan)) : std::nullopt;
  }

  void append_first(const std::vector<OptIn>& chosen, std::vector<Alternative>& found) const {
    Recipe base = recipe_;
    std::vector<std::string> changes;
    for (const OptIn& one : chosen) {
      one.apply(base);
      changes.emplace_back(one.changes);
    }
    for (Alternative& alternative : free_choices(base, 1)) {
      alternative.changes = changes;
      found.push_back(std::move(alternative));
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
  return {search.free_choices(recipe, kEnoughAlternatives), search.opt_ins()};
}

}  // namespace snug
