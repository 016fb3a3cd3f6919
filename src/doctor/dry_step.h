// A step at the planned sizes, with weights that were never loaded: do the kernels run, and how long do they
// take?
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "data/batches/batch.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

// A micro-batch as long as the plan has room for, its sequences as long as the recipe allows, of tokens that
// mean nothing.
Batch full_batch(const Plan& plan, const Recipe& recipe, const ModelSpec& spec);

struct DryStep {
  int64_t tokens = 0;
  double seconds = 0;  // of the micro-batch and the update, the second time they are done
  int64_t allocated_bytes = 0;
};

// Takes the plan's memory; nothing is saved.
DryStep take_dry_step(const Plan& plan, const Recipe& recipe, const ModelSpec& spec, Backend& backend);

// Whether the processor does it in seconds.
bool is_small(const Plan& plan);

}  // namespace snug
