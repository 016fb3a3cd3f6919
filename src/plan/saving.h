// Checkpoints in a plan: the copy in the host's memory that they are written from while training goes on,
// their disk space, and how long one takes to write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

// What a run changes on the device and keeps from step to step (weights, their masters or rests, moments, the
// clock). Gradients are zero between steps and are left out.
std::vector<const Buffer*> state_buffers(const Plan& plan);

// Where each of them lies in the copy.
struct SnapshotPart {
  std::string buffer;
  int64_t offset = 0;
  int64_t bytes = 0;
};
std::vector<SnapshotPart> snapshot_parts(const Plan& plan);

// As many checkpoints as may be on the disk at once: those that are kept and the one that is being written. A
// run that is stopped writes one in any case.
int64_t checkpoints_on_disk(const TrainingSection& training);

// Gives `plan` its Saving, and room for the copy in the host's arena where the device's host has it.
void plan_saving(Plan& plan, const Recipe& recipe, const Device& device);

// For runs one behind the other, in arenas as large as the largest of them needs: where host and device are
// one memory, a copy stays only where it fits beside that.
void share_arenas(std::vector<Plan>& plans, const Device& device);

}  // namespace snug
