// Plan to JSON.
#include "plan/plan_json.h"

#include <algorithm>

#include "plan/layout.h"
#include "plan/training.h"

namespace snug {
namespace {

constexpr size_t kShownBuffers = 12;

Json roles_json(const std::array<int64_t, kRoleCount>& bytes) {
  Json roles = Json::object();
  for (size_t role = 0; role < bytes.size(); ++role) {
    if (bytes[role] > 0) {
      roles[std::string(name_of(static_cast<Role>(role)))] = bytes[role];
    }
  }
  return roles;
}

Json phase_json(const PhasePlan& phase) {
  Json largest = Json::array();
  for (size_t i = 0; i < std::min(phase.live_at_peak.size(), kShownBuffers); ++i) {
    const Buffer& buffer = phase.program.buffer(phase.live_at_peak[i]);
    largest.push_back({{"name", buffer.name}, {"role", name_of(buffer.role)}, {"bytes", buffer.max_bytes()}});
  }
  return {{"name", phase.name()},
          {"peak_bytes", phase.device().peak_bytes},
          {"lower_bound_bytes", phase.device().lower_bound_bytes},
          {"placement_loss_bytes", phase.placement_loss_bytes},
          {"peak_op", phase.peak_op},
          {"roles", roles_json(phase.role_bytes)},
          {"largest_buffers", largest}};
}

Json saving_json(const Saving& saving) {
  return {{"checkpoint_bytes", saving.checkpoint_bytes},
          {"checkpoints", saving.checkpoints},
          {"disk_bytes", saving.disk_bytes()},
          {"while_training", saving.while_training},
          {"snapshot_bytes", saving.snapshot_bytes},
          {"training_waits", saving.while_training ? Json(saving.training_waits()) : Json()},
          {"seconds", saving.seconds()},
          {"assumed_disk_bytes_per_second", Saving::kAssumedDiskBytesPerSecond}};
}

}  // namespace

Json plan_to_json(const Plan& plan) {
  std::array<int64_t, kRoleCount> roles = plan.largest_phase().role_bytes;
  roles[static_cast<size_t>(Role::driver_context)] += plan.context_bytes;
  std::optional<int64_t> evaluated = plan.evaluated_sequences;
  Json phases = Json::array();
  for (const PhasePlan& phase : plan.phases) {
    phases.push_back(phase_json(phase));
  }
  return {{"fits", plan.limit_bytes ? Json(plan.fits()) : Json()},
          {"backend", plan.backend},
          {"threads", plan.threads > 0 ? Json(plan.threads) : Json()},
          {"peak_bytes", plan.peak_bytes()},
          {"limit_bytes", plan.limit_bytes ? Json(*plan.limit_bytes) : Json()},
          {"headroom_bytes", plan.limit_bytes ? Json(*plan.limit_bytes - plan.peak_bytes()) : Json()},
          {"device_bytes", plan.device_bytes()},
          {"pinned_bytes", plan.arena_bytes[static_cast<size_t>(Home::pinned)]},
          {"host_bytes", plan.arena_bytes[static_cast<size_t>(Home::host)]},
          {"context_bytes", plan.context_bytes},
          {"peak_phase", plan.largest_phase().name()},
          {"peak_op", plan.largest_phase().peak_op},
          {"parameters", plan.parameters},
          {"trainable_parameters", plan.trainable_parameters},
          {"roles", roles_json(roles)},
          {"most_micro_batches", plan.step.most},
          {"expected_micro_batches", plan.step.expected ? Json(*plan.step.expected) : Json()},
          {"evaluation_sequences", evaluated ? Json(*evaluated) : Json()},
          {"saving", plan.saving ? saving_json(*plan.saving) : Json()},
          {"phases", phases}};
}

std::string plan_file(const Plan& plan) {
  Json json = plan_to_json(plan);
  json["layout"] = layout_to_json(layout_of(plan));
  return json.dump(1) + "\n";
}

}  // namespace snug
