// Where the values of a run's buffers come from when they are written out: the device, or a copy of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "exec/executor.h"

namespace snug {

class BufferReader {
 public:
  virtual ~BufferReader() = default;
  virtual const Plan& plan() const = 0;

  // Calls `take` with these bytes of a persistent buffer, in order, in pieces.
  using TakeBytes = std::function<void(std::span<const std::byte> bytes)>;
  virtual void read(const std::string& buffer, int64_t first_byte, int64_t bytes, const TakeBytes& take) = 0;

  // The same with fp32 numbers whose halves lie in two buffers (base/split_float.h).
  struct Halves {
    std::string upper;
    std::string rests;
  };
  virtual void read_joined(const Halves& buffers, int64_t first_element, int64_t elements,
                           const TakeBytes& take) = 0;
};

// Through the staging buffer of the save phase; waits for what the device is doing.
class DeviceReader : public BufferReader {
 public:
  explicit DeviceReader(Executor& executor) : executor_(executor) {}

  const Plan& plan() const override { return executor_.plan(); }
  void read(const std::string& buffer, int64_t first_byte, int64_t bytes, const TakeBytes& take) override;
  void read_joined(const Halves& buffers, int64_t first_element, int64_t elements,
                   const TakeBytes& take) override;

 private:
  Executor& executor_;
};

}  // namespace snug
