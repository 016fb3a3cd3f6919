// Sizes of checkpoints, and where there is room for the copy.
#include "plan/saving.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/bytes.h"
#include "base/check.h"
#include "program/names.h"

namespace snug {
namespace {

// Adapters have a file of their own beside the state, in fp32 where there are masters or rests; the weights
// of full fine-tuning are in the model's files alone.
int64_t checkpoint_bytes(const Plan& plan, const Recipe& recipe) {
  std::unordered_set<std::string> names;
  int64_t bytes = 0;
  for (const Buffer* buffer : state_buffers(plan)) {
    names.insert(buffer->name);
    bytes += buffer->max_bytes();
  }
  if (!recipe.lora) {
    return bytes;
  }
  for (const Buffer* buffer : state_buffers(plan)) {
    bool is_parameter = buffer->role == Role::adapters || buffer->role == Role::base_weights;
    if (is_parameter) {
      bool is_exact = names.contains(master_name(buffer->name)) || names.contains(rest_name(buffer->name));
      bytes += is_exact ? bytes_of(DType::f32, buffer->max_elements()) : buffer->max_bytes();
    }
  }
  for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {  // they go into the same file
    bytes += buffer.role == Role::frozen_adapters ? bytes_of(DType::f32, buffer.max_elements()) : 0;
  }
  return bytes;
}

bool is_one_memory(const Device& device) {
  return device.home_of(Home::pinned) == Home::device;
}

// What of the host's memory the run has left for the copy, beside a device's arena of that size; nothing if
// nobody knows.
std::optional<int64_t> host_bytes_left(const Plan& plan, const Device& device, int64_t device_bytes) {
  std::optional<int64_t> left = device.host_available_bytes();
  if (left) {
    *left -= plan.arena_bytes[static_cast<size_t>(Home::pinned)] + (is_one_memory(device) ? device_bytes : 0);
  }
  if (is_one_memory(device) && plan.limit_bytes) {
    int64_t within_limit = *plan.limit_bytes - plan.context_bytes - device_bytes;
    left = left ? std::min(*left, within_limit) : within_limit;
  }
  return left;
}

constexpr auto kHost = static_cast<size_t>(Home::host);

PhasePlan& save_phase(Plan& plan) {
  auto save = std::find_if(plan.phases.begin(), plan.phases.end(),
                           [](const PhasePlan& phase) { return phase.name() == kSavePhase; });
  SNUG_CHECK(save != plan.phases.end(), "a run saves");
  return *save;
}

void add_snapshot(Plan& plan, int64_t bytes) {
  PhasePlan& save = save_phase(plan);
  SNUG_CHECK(plan.arena_bytes[kHost] == 0, "the host's arena is the copy's");
  save.program.add_buffer({.name = kSnapshot,
                           .format = DType::u8,
                           .dims = {fixed(bytes)},
                           .role = Role::staging,
                           .lifetime = Lifetime::persistent,
                           .home = Home::host});
  save.offsets.push_back(0);
  save.arenas[kHost] = {.peak_bytes = bytes, .lower_bound_bytes = bytes};
  plan.arena_bytes[kHost] = bytes;
}

void remove_snapshot(Plan& plan) {
  PhasePlan& save = save_phase(plan);
  SNUG_CHECK(save.program.buffers.back().name == kSnapshot, "the copy was added last");
  save.program.buffers.pop_back();
  save.offsets.pop_back();
  save.arenas[kHost] = {};
  plan.arena_bytes[kHost] = 0;
}

}  // namespace

std::vector<const Buffer*> state_buffers(const Plan& plan) {
  std::vector<const Buffer*> buffers;
  for (const Buffer& buffer : plan.phase(kUpdatePhase).program.buffers) {
    bool is_scratch = buffer.role == Role::gradients || buffer.role == Role::batch;
    bool is_known = is_scratch || buffer.origin == Origin::constant;
    if (buffer.lifetime == Lifetime::persistent && !is_known) {
      buffers.push_back(&buffer);
    }
  }
  return buffers;
}

std::vector<SnapshotPart> snapshot_parts(const Plan& plan) {
  std::vector<SnapshotPart> parts;
  int64_t end = 0;
  for (const Buffer* buffer : state_buffers(plan)) {
    parts.push_back({buffer->name, end, buffer->max_bytes()});
    end += align_up(buffer->max_bytes());
  }
  return parts;
}

int64_t checkpoints_on_disk(const TrainingSection& training) {
  int64_t kept = training.save_strategy == SaveStrategy::no ? 0 : training.save_total_limit;
  return kept + 1 + (training.load_best_model_at_end ? 1 : 0);
}

void plan_saving(Plan& plan, const Recipe& recipe, const Device& device) {
  Saving saving;
  saving.checkpoint_bytes = checkpoint_bytes(plan, recipe);
  saving.checkpoints = checkpoints_on_disk(recipe.training);
  saving.while_training = recipe.training.save_strategy != SaveStrategy::no;
  if (saving.while_training) {
    SnapshotPart last = snapshot_parts(plan).back();
    saving.snapshot_bytes = last.offset + align_up(last.bytes);
    saving.host_bytes_left = host_bytes_left(plan, device, plan.device_bytes());
    if (!saving.training_waits()) {
      add_snapshot(plan, saving.snapshot_bytes);
    }
  }
  plan.saving = saving;
}

void share_arenas(std::vector<Plan>& plans, const Device& device) {
  int64_t largest = 0;
  for (const Plan& plan : plans) {
    largest = std::max(largest, plan.fits() ? plan.device_bytes() : 0);
  }
  for (Plan& plan : plans) {
    bool has_copy = plan.arena_bytes[kHost] > 0;
    if (!has_copy || !is_one_memory(device)) {
      continue;
    }
    plan.saving->host_bytes_left = host_bytes_left(plan, device, largest);
    if (plan.saving->training_waits()) {
      remove_snapshot(plan);
    }
  }
}

}  // namespace snug
