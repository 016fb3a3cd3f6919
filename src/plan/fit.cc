// Trying the free choices in the order of what they cost.
#include "plan/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "compile/phases.h"

namespace snug {
namespace {

constexpr size_t kEnoughAlternatives = 3;

constexpr std::array<std::pair<Recompute, const char*>, 3> kPolicies = {
    {{Recompute::none, "none"}, {Recompute::selective, "selective"}, {Recompute::full, "full"}}};

// Micro-batches that divide the step evenly, largest first, the recipe's own included.
std::vector<int64_t> micro_batches(const TrainingSection& training) {
  std::vector<int64_t> sizes;
  for (int64_t size = training.per_device_train_batch_size; size >= 1; --size) {
    if (training.per_device_train_batch_size % size == 0) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

}  // namespace

std::optional<int64_t> memory_limit(const Recipe& recipe, const Device& device) {
  return recipe.memory.limit_bytes ? recipe.memory.limit_bytes : device.device_total_bytes();
}

Plan plan_training(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                   const LimitsOf& limits) {
  RunLimits batches = limits ? limits(recipe) : recipe_limits(recipe, spec);
  return make_plan(compile_training(recipe, spec, batches), device, memory_limit(recipe, device));
}

std::vector<Alternative> find_alternatives(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                                           const LimitsOf& limits) {
  std::vector<Alternative> found;
  const TrainingSection& training = recipe.training;
  int64_t effective = training.per_device_train_batch_size * training.gradient_accumulation_steps;
  for (int64_t size : micro_batches(training)) {
    for (const auto& [policy, policy_name] : kPolicies) {
      Recipe candidate = recipe;
      candidate.training.per_device_train_batch_size = size;
      candidate.training.gradient_accumulation_steps = effective / size;
      candidate.training.per_device_eval_batch_size = std::min(training.per_device_eval_batch_size, size);
      candidate.memory.recompute = {policy};
      Plan plan = plan_training(candidate, spec, device, limits);
      if (!plan.fits()) {
        continue;
      }
      Alternative alternative{{fmt::format("memory.recompute={}", policy_name)}, plan.peak_bytes()};
      if (size != training.per_device_train_batch_size) {
        alternative.settings.push_back(fmt::format("training.per_device_train_batch_size={}", size));
        alternative.settings.push_back(
            fmt::format("training.gradient_accumulation_steps={}", effective / size));
      }
      if (candidate.training.per_device_eval_batch_size != training.per_device_eval_batch_size) {
        alternative.settings.push_back(fmt::format("training.per_device_eval_batch_size={}",
                                                   candidate.training.per_device_eval_batch_size));
      }
      found.push_back(std::move(alternative));
      break;  // a stronger policy at the same size would only be slower
    }
    if (found.size() == kEnoughAlternatives) {
      break;
    }
  }
  return found;
}

}  // namespace snug
