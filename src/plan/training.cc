// One recipe, one plan.
#include "plan/training.h"

#include <utility>

#include "compile/phases.h"
#include "plan/saving.h"
#include "program/names.h"

namespace snug {
namespace {

Plan plan_phases(const Recipe& recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits) {
  auto limits_of = [&](const Recipe& one) { return limits ? limits(one) : recipe_limits(one, spec); };
  RunLimits batches = limits_of(recipe);
  bool is_open = batches.evaluate && !recipe.training.per_device_eval_batch_size;
  if (!is_open) {
    Plan plan = make_plan(compile_training(recipe, spec, batches), device, memory_limit(recipe, device));
    plan.step = batches.step;
    plan.evaluated_sequences = batches.evaluate ? recipe.training.per_device_eval_batch_size : std::nullopt;
    return plan;
  }
  RunLimits without_evaluation{.train = batches.train, .step = batches.step};
  Plan plan =
      make_plan(compile_training(recipe, spec, without_evaluation), device, memory_limit(recipe, device));
  plan.step = batches.step;
  std::optional<PhasePlan> chosen;
  for (int64_t sequences = 1; sequences <= kMostEvaluationSequences; sequences *= 2) {
    Recipe sized = recipe;
    sized.training.per_device_eval_batch_size = sequences;
    BatchLimits batch = limits_of(sized).evaluate.value();
    if (chosen && batch.tokens + batch.source_tokens > kMostEvaluationTokens) {
      break;
    }
    PhasePlan phase = plan_phase(plan, compile_evaluation(recipe, spec, batch), device);
    if (chosen && phase.device().peak_bytes > plan.device_bytes()) {
      break;
    }
    chosen = std::move(phase);
    plan.evaluated_sequences = sequences;
  }
  insert_phase(plan, std::move(*chosen), kSavePhase);
  return plan;
}

}  // namespace

std::optional<int64_t> memory_limit(const Recipe& recipe, const Device& device) {
  return recipe.memory.limit_bytes ? recipe.memory.limit_bytes : device.device_total_bytes();
}

Plan plan_training(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                   const LimitsOf& limits) {
  Plan plan = plan_phases(recipe, spec, device, limits);
  plan_saving(plan, recipe, device);
  return plan;
}

BatchLimits planned_batch(const Plan& plan, std::string_view phase) {
  const Program& program = plan.phase(phase).program;
  auto rows = [&](const char* name) {
    BufferId id = program.find(name);
    return id == kNoBuffer ? 0 : program.buffer(id).dims[0].max;
  };
  return {.sequences = rows(kOffsets) - 1, .tokens = rows(kIds), .source_tokens = rows(kSourceIds)};
}

}  // namespace snug
