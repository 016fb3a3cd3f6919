// Walking a plan.
#include "exec/executor.h"

#include "base/check.h"

namespace snug {

Executor::Executor(const Plan& plan, Backend& backend) : plan_(plan), backend_(backend) {
  for (size_t home = 0; home < arenas_.size(); ++home) {
    if (plan.arena_bytes[home] > 0) {
      arenas_[home] = backend.arena(static_cast<Home>(home), plan.arena_bytes[home]);
    }
  }
  backend.forget_phases();
  for (const PhasePlan& phase : plan.phases) {
    BoundPhase& bound = phases_[phase.name()];
    bound.plan = &phase;
    for (size_t id = 0; id < phase.program.buffers.size(); ++id) {
      bound.buffers[phase.program.buffers[id].name] = static_cast<BufferId>(id);
    }
  }
}

const Executor::BoundPhase& Executor::bound(std::string_view phase) const {
  auto found = phases_.find(phase);
  SNUG_CHECK(found != phases_.end(), "no phase is named " + std::string(phase));
  return found->second;
}

std::byte* Executor::address(const PhasePlan& phase, BufferId id) const {
  int64_t offset = phase.offsets[static_cast<size_t>(id)];
  SNUG_CHECK(offset >= 0, "the plan gave no place to " + phase.program.buffer(id).name);
  return arenas_[static_cast<size_t>(phase.program.buffer(id).home)] + offset;
}

Tensor Executor::tensor_at(const PhasePlan& phase, BufferId id, const Extents& extents) const {
  if (id == kNoBuffer) {
    return {};
  }
  return tensor_of(phase.program.buffer(id), address(phase, id), extents);
}

void Executor::run(std::string_view phase_name, const Extents& extents, Sums sums) {
  const PhasePlan& phase = *bound(phase_name).plan;
  // Two sequences of ops, so that a backend that records them keeps them apart.
  std::string sequence = std::string(phase_name) + (sums == Sums::begin ? ", sums begin" : "");
  backend_.run_phase(sequence, extents, [&] { run_ops(phase, extents, sums); });
}

void Executor::run_ops(const PhasePlan& phase, const Extents& extents, Sums sums) {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  for (const Op& op : phase.program.ops) {
    inputs.clear();
    outputs.clear();
    for (BufferId id : op.inputs) {
      inputs.push_back(tensor_at(phase, id, extents));
    }
    for (BufferId id : op.outputs) {
      outputs.push_back(tensor_at(phase, id, extents));
    }
    std::span<std::byte> workspace;
    if (op.workspace != kNoBuffer) {
      workspace = {address(phase, op.workspace),
                   static_cast<size_t>(phase.program.buffer(op.workspace).max_bytes())};
    }
    if (sums == Sums::begin && op.begins != 0) {
      Op first = op;
      first.accumulates &= ~op.begins;
      backend_.run({first, inputs, outputs, workspace});
    } else {
      backend_.run({op, inputs, outputs, workspace});
    }
  }
}

std::pair<const PhasePlan*, BufferId> Executor::locate(std::string_view phase,
                                                       std::string_view buffer) const {
  const BoundPhase& in = bound(phase);
  auto found = in.buffers.find(buffer);
  return {in.plan, found == in.buffers.end() ? kNoBuffer : found->second};
}

bool Executor::has(std::string_view phase, std::string_view buffer) const {
  return locate(phase, buffer).second != kNoBuffer;
}

Tensor Executor::tensor(std::string_view phase, std::string_view buffer) const {
  auto [plan, id] = locate(phase, buffer);
  SNUG_CHECK(id != kNoBuffer, "phase " + std::string(phase) + " has no buffer " + std::string(buffer));
  return tensor_at(*plan, id, planned_extents(plan->program));
}

void Executor::write(std::string_view phase, std::string_view buffer, std::span<const std::byte> bytes) {
  Tensor target = tensor(phase, buffer);
  SNUG_CHECK(static_cast<int64_t>(bytes.size()) <= target.bytes(),
             "more than was planned for " + std::string(buffer));
  backend_.upload(target.data, bytes.data(), static_cast<int64_t>(bytes.size()));
}

void Executor::read(std::string_view phase, std::string_view buffer, std::span<std::byte> bytes) {
  Tensor source = tensor(phase, buffer);
  SNUG_CHECK(static_cast<int64_t>(bytes.size()) <= source.bytes(),
             "more than there is in " + std::string(buffer));
  backend_.download(bytes.data(), source.data, static_cast<int64_t>(bytes.size()));
}

int64_t Executor::allocated_bytes() const {
  int64_t bytes = 0;
  for (int home = 0; home < kHomeCount; ++home) {
    bytes += backend_.allocated_bytes(static_cast<Home>(home));
  }
  return bytes;
}

int64_t Executor::announced_bytes() const {
  int64_t bytes = 0;
  for (int home = 0; home < kHomeCount; ++home) {
    bytes += backend_.announced_bytes(static_cast<Home>(home));
  }
  return bytes;
}

}  // namespace snug
