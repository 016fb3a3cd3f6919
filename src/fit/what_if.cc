// A plan a remedy.
#include "fit/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "compile/phases.h"
#include "fit/alternatives.h"
#include "fit/choice.h"
#include "plan/training.h"
#include "recipe/effective_batch.h"

namespace snug {
namespace {

// What is said to help and is no key of a recipe: one arena is taken once, at the size that the plan says,
// and nothing of these has a part in it.
constexpr std::array<std::string_view, 4> kBesideThePlan = {
    "PYTORCH_CUDA_ALLOC_CONF", "torch.cuda.empty_cache()", "TOKENIZERS_PARALLELISM", "dataloader workers"};

class Trial {
 public:
  Trial(const Recipe& recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits)
      : recipe_(recipe), spec_(spec), device_(device), limits_(limits) {
    Plan plan = plan_training(recipe_, spec_, device_, limits_);
    found_.peak_bytes = plan.peak_bytes();
    fits_ = plan.fits();
    seconds_ = seconds_per_sequence(recipe_, plan);
  }

  WhatIf make() {
    try_knobs();
    for (const OptIn& one : opt_ins()) {
      if (one.applies(recipe_, spec_)) {
        try_with(Sameness::numerics, one.apply);
      }
    }
    try_experiments();
    try_with(Sameness::experiment, [](Recipe& recipe) {
      if (recipe.lora) {
        recipe.lora->lora_alpha /= 2;
      }
    });
    try_with(Sameness::bits, [](Recipe& recipe) { recipe.training.save_total_limit = 1; });
    for (std::string_view one : kBesideThePlan) {
      found_.tried.push_back({.remedy = std::string(one), .fits = fits_});
    }
    return std::move(found_);
  }

 private:
  double seconds_per_sequence(const Recipe& recipe, const Plan& plan) const {
    return expected_step_seconds(plan, device_, run_dtype(recipe, spec_)) /
           static_cast<double>(effective_batch(recipe.training));
  }

  template <typename Apply>
  void try_with(Sameness changes, const Apply& apply) {
    Recipe changed = recipe_;
    apply(changed);
    std::vector<std::string> settings = settings_between(recipe_, changed);
    if (settings.empty()) {
      return;  // it is so already
    }
    Plan plan = plan_training(changed, spec_, device_, limits_);
    found_.tried.push_back({.remedy = settings.front(),
                            .saved_bytes = found_.peak_bytes - plan.peak_bytes(),
                            .slower = seconds_per_sequence(changed, plan) / seconds_ - 1,
                            .changes = changes,
                            .fits = plan.fits()});
  }

  void try_knobs() {
    int64_t half = micro_batch_tokens(recipe_) / 2;
    if (half >= recipe_.data.max_length) {
      try_with(Sameness::rounding, [&](Recipe& recipe) { recipe.memory.micro_batch_tokens = half; });
    }
    for (Recompute policy : {Recompute::selective, Recompute::full}) {
      try_with(Sameness::bits, [&](Recipe& recipe) { recipe.memory.recompute = {policy}; });
    }
    try_with(Sameness::rounding, [](Recipe& recipe) { recipe.memory.loss_chunk_tokens = 128; });
  }

  void try_experiments() {
    std::optional<int64_t> per_device = recipe_.training.per_device_train_batch_size;
    if (per_device.value_or(1) > 1) {
      try_with(Sameness::experiment, [&](Recipe& recipe) {
        recipe.training.per_device_train_batch_size = *per_device / 2;
        recipe.training.effective_batch_size.reset();
      });
    }
    try_with(Sameness::experiment,
             [](Recipe& recipe) { recipe.data.max_length -= recipe.data.max_length / 4; });
    if (recipe_.data.max_target_length > 0) {
      try_with(Sameness::experiment,
               [](Recipe& recipe) { recipe.data.max_target_length -= recipe.data.max_target_length / 4; });
    }
    if (recipe_.lora && recipe_.lora->r > 1) {
      try_with(Sameness::experiment, [](Recipe& recipe) { recipe.lora->r /= 2; });
    }
  }

  const Recipe& recipe_;
  const ModelSpec& spec_;
  const Device& device_;
  const LimitsOf& limits_;
  WhatIf found_;
  double seconds_ = 0;
  bool fits_ = false;
};

}  // namespace

WhatIf try_remedies(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                    const LimitsOf& limits) {
  return Trial(recipe, spec, device, limits).make();
}

}  // namespace snug
