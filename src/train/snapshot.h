// A copy of the device's state in the host's memory, at the place that the plan has for it: what a checkpoint
// is written from while training goes on.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "plan/saving.h"
#include "train/buffer_reader.h"

namespace snug {

class Snapshot : public BufferReader {
 public:
  // The executor's plan must have room for it.
  explicit Snapshot(Executor& executor);

  // The state as it is now: waits for what the device is doing, and goes through the staging buffer.
  void take();

  const Plan& plan() const override { return plan_; }
  // From any thread, while nobody takes another.
  void read(const std::string& buffer, int64_t first_byte, int64_t bytes, const TakeBytes& take) override;
  void read_joined(const Halves& buffers, int64_t first_element, int64_t elements,
                   const TakeBytes& take) override;

 private:
  // Where these bytes of a buffer lie in the copy.
  const std::byte* find(const std::string& buffer, int64_t first_byte, int64_t bytes) const;

  Executor& executor_;
  const Plan& plan_;
  std::byte* memory_;
  std::unordered_map<std::string, SnapshotPart> parts_;
};

// Whether the plan has room for one.
bool has_snapshot(const Plan& plan);

}  // namespace snug
