// The plan: every buffer of every phase at its place. It is printed, written as JSON, and executed; the
// executor takes its addresses from here and from nowhere else.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "compile/batch_limits.h"
#include "program/program.h"

namespace snug {

// One phase on one arena.
struct ArenaUse {
  int64_t peak_bytes = 0;         // persistent buffers and the placed rest
  int64_t lower_bound_bytes = 0;  // no placement of this phase could be smaller
};

struct PhasePlan {
  Program program;               // as the device runs it (plan/lower.h)
  std::vector<int64_t> offsets;  // by BufferId, within the arena of the buffer's home
  std::array<ArenaUse, kHomeCount> arenas{};
  std::string peak_op;                           // at which most device bytes are live; "" if there is no op
  std::vector<BufferId> live_at_peak;            // largest first
  std::array<int64_t, kRoleCount> role_bytes{};  // live at that op
  int64_t placement_loss_bytes = 0;              // device peak less the sum of role_bytes

  const std::string& name() const { return program.name; }
  const ArenaUse& device() const { return arenas[static_cast<size_t>(Home::device)]; }
};

// What checkpoints take beside the device's memory (plan/saving.h).
struct Saving {
  // A disk's rate is not known before it is written to; this one is assumed, that of a plain solid-state
  // disk.
  static constexpr double kAssumedDiskBytesPerSecond = 500e6;

  int64_t checkpoint_bytes = 0;            // of the tensors of one, on the disk
  int64_t checkpoints = 0;                 // on the disk at once, at most
  bool while_training = false;             // else one is written only when the run is stopped
  int64_t snapshot_bytes = 0;              // of the host's memory, for the copy that they are written from
  std::optional<int64_t> host_bytes_left;  // for it; none: nobody knows

  int64_t disk_bytes() const { return checkpoints * checkpoint_bytes; }
  double seconds() const { return static_cast<double>(checkpoint_bytes) / kAssumedDiskBytesPerSecond; }
  // Without room for the copy, training waits while a checkpoint is written.
  bool training_waits() const { return host_bytes_left && snapshot_bytes > *host_bytes_left; }
};

struct Plan {
  std::string backend;
  int threads = 0;  // that it is made for, where kernels run on the host
  std::vector<PhasePlan> phases;
  std::array<int64_t, kHomeCount> arena_bytes{};
  int64_t context_bytes = 0;           // what the driver takes beside the arena
  std::optional<int64_t> limit_bytes;  // none: nobody said how much there is
  int64_t parameters = 0;
  int64_t trainable_parameters = 0;
  // Of a plan to train by:
  std::optional<Saving> saving;
  StepCut step;
  std::optional<int64_t>
      evaluated_sequences;  // whose tokens bound an evaluation's batch; none: no evaluation

  int64_t all_bytes() const;  // of all arenas
  int64_t device_bytes() const { return arena_bytes[static_cast<size_t>(Home::device)]; }
  int64_t peak_bytes() const { return device_bytes() + context_bytes; }
  bool fits() const { return !limit_bytes || peak_bytes() <= *limit_bytes; }
  const PhasePlan& phase(std::string_view name) const;
  // The phase whose device peak is the arena's size.
  const PhasePlan& largest_phase() const;
};

// Further phases of `plan`, whose persistent buffers they share. Others that they have persist from one of
// them to the next, and give way when another phase runs.
std::vector<PhasePlan> plan_phases(const Plan& plan, std::vector<Program> programs, const Device& device);
// Behind all others if none is called `before`.
void insert_phase(Plan& plan, PhasePlan phase, std::string_view before);

// Places the buffers of all programs. Persistent buffers are shared by name. Throws bad_input for an op that
// the device cannot run.
Plan make_plan(std::vector<Program> programs, const Device& device, std::optional<int64_t> limit_bytes);

}  // namespace snug
