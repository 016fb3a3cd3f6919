// The executor: takes the arenas that a plan asks for, once, and runs its phases. It knows no op and no
// model; every address is the plan's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "plan/plan.h"

namespace snug {

class Executor {
 public:
  // Both must outlive the executor. Throws environment_error if the memory cannot be had. Arenas that the
  // backend has taken for an earlier plan are used again: they must be as large.
  Executor(const Plan& plan, Backend& backend);

  // Whether sums that outlive a phase, those of a step's gradients, begin or go on.
  enum class Sums { begin, go_on };
  // Runs all ops of a phase at these sizes. No extent may exceed its planned maximum.
  void run(std::string_view phase, const Extents& extents, Sums sums = Sums::go_on);

  // A buffer of a phase (or any persistent buffer) at its planned size.
  Tensor tensor(std::string_view phase, std::string_view buffer) const;
  bool has(std::string_view phase, std::string_view buffer) const;

  // Copies between host memory and the front of a buffer; no more than fits in it.
  void write(std::string_view phase, std::string_view buffer, std::span<const std::byte> bytes);
  void read(std::string_view phase, std::string_view buffer, std::span<std::byte> bytes);
  template <typename T>
  void write_values(std::string_view phase, std::string_view buffer, std::span<const T> values) {
    write(phase, buffer, std::as_bytes(values));
  }

  const Plan& plan() const { return plan_; }
  Backend& backend() { return backend_; }
  bool runs_ahead() const { return backend_.runs_ahead(); }
  int64_t allocated_bytes() const;
  int64_t announced_bytes() const;

 private:
  struct BoundPhase {
    const PhasePlan* plan = nullptr;
    std::map<std::string, BufferId, std::less<>> buffers;
  };

  void run_ops(const PhasePlan& phase, const Extents& extents, Sums sums);
  const BoundPhase& bound(std::string_view phase) const;
  std::byte* address(const PhasePlan& phase, BufferId id) const;
  Tensor tensor_at(const PhasePlan& phase, BufferId id, const Extents& extents) const;
  std::pair<const PhasePlan*, BufferId> locate(std::string_view phase, std::string_view buffer) const;

  const Plan& plan_;
  Backend& backend_;
  std::array<std::byte*, kHomeCount> arenas_{};
  std::map<std::string, BoundPhase, std::less<>> phases_;
};

}  // namespace snug
