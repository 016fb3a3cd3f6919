// One recipe, one plan.
#include "plan/training.h"

#include <utility>

#include "compile/phases.h"
#include "plan/saving.h"
#include "program/names.h"
#include "recipe/eval_metric.h"

namespace snug {
namespace {

struct TrainingRequest {
  const Recipe& recipe;
  const ModelSpec& spec;
  const Device& device;
};

// What an evaluation meets at most, where so many sequences bound its batches.
BatchLimits evaluated_batch(const Recipe& recipe, int64_t sequences, const LimitsOf& limits_of) {
  Recipe sized = recipe;
  sized.training.per_device_eval_batch_size = sequences;
  return limits_of(sized).evaluate.value();
}

// Adds the evaluation with the largest batches that do not raise the peak, of so many sequences at most.
void add_largest_evaluation(Plan& plan, const TrainingRequest& request, const LimitsOf& limits_of,
                            int64_t most_sequences) {
  const auto& [recipe, spec, device] = request;
  std::optional<PhasePlan> chosen;
  for (int64_t sequences = 1; sequences <= most_sequences; sequences *= 2) {
    BatchLimits batch = evaluated_batch(recipe, sequences, limits_of);
    if (chosen && batch.tokens + batch.source_tokens > kMostEvaluationTokens) {
      break;
    }
    PhasePlan phase = std::move(plan_phases(plan, {compile_evaluation(recipe, spec, batch)}, device).front());
    if (chosen && phase.device().peak_bytes > plan.device_bytes()) {
      break;
    }
    chosen = std::move(phase);
    plan.evaluated_sequences = sequences;
  }
  insert_phase(plan, std::move(*chosen), kSavePhase);
}

// Where the recipe leaves an evaluation's batches open, they have up to `most_sequences`.
Plan plan_all_phases(const TrainingRequest& request, const LimitsOf& limits, int64_t most_sequences) {
  const auto& [recipe, spec, device] = request;
  LimitsOf limits_of = limits ? limits : [&](const Recipe& one) { return recipe_limits(one, request.spec); };
  RunLimits batches = limits_of(recipe);
  bool evaluates = batches.evaluate.has_value();
  bool is_open = evaluates && !recipe.training.per_device_eval_batch_size;
  if (is_open) {
    batches.evaluate.reset();
  }
  Plan plan = make_plan(compile_training(recipe, spec, batches), device, memory_limit(recipe, device));
  plan.step = batches.step;
  if (is_open) {
    add_largest_evaluation(plan, request, limits_of, most_sequences);
  } else if (evaluates) {
    plan.evaluated_sequences = recipe.training.per_device_eval_batch_size;
  }
  if (evaluates && most_new_tokens(recipe.training) > 0) {
    BatchLimits longest = evaluated_batch(recipe, 1, limits_of);
    for (PhasePlan& phase : plan_phases(plan, compile_answers(recipe, spec, longest), device)) {
      insert_phase(plan, std::move(phase), kSavePhase);
    }
  }
  return plan;
}

}  // namespace

std::optional<int64_t> memory_limit(const Recipe& recipe, const Device& device) {
  return recipe.memory.limit_bytes ? recipe.memory.limit_bytes : device.device_total_bytes();
}

Plan plan_training(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                   const LimitsOf& limits) {
  Plan plan = plan_all_phases({recipe, spec, device}, limits, kMostEvaluationSequences);
  plan_saving(plan, recipe, device);
  return plan;
}

Plan plan_for_peak(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                   const LimitsOf& limits) {
  return plan_all_phases({recipe, spec, device}, limits, 1);
}

BatchLimits planned_batch(const Plan& plan, std::string_view phase) {
  return planned_batch(plan.phase(phase).program);
}

BatchLimits planned_batch(const Program& program) {
  auto rows = [&](const char* name) {
    BufferId id = program.find(name);
    return id == kNoBuffer ? 0 : program.buffer(id).dims[0].max;
  };
  return {.sequences = rows(kOffsets) - 1, .tokens = rows(kIds), .source_tokens = rows(kSourceIds)};
}

}  // namespace snug
