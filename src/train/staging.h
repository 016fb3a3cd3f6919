// The load phase's staging buffer in two halves: one is filled while the other is on its way to the device.
#pragma once

#include <array>
#include <optional>

#include "base/bytes.h"
#include "exec/executor.h"
#include "program/names.h"

namespace snug {

class Staging {
 public:
  explicit Staging(Executor& executor)
      : backend_(executor.backend()), memory_(executor.tensor(kLoadPhase, kStaging)) {}

  int64_t half_bytes() const { return memory_.elements() / 2 / kAlignment * kAlignment; }
  // The half to fill next, when what it held has arrived.
  std::byte* next() {
    half_ = 1 - half_;
    if (marks_[half_]) {
      backend_.wait_for(*marks_[half_]);
    }
    return memory_.as<std::byte>() + static_cast<int64_t>(half_) * half_bytes();
  }
  void send(void* target, const std::byte* half, int64_t bytes) {
    backend_.upload(target, half, bytes);
    marks_[half_] = backend_.mark();
  }
  // The half's values, as codes.
  void send(const CodePiece& piece) {
    backend_.quantise(piece);
    marks_[half_] = backend_.mark();
  }
  // For use of the whole at once; nothing is on its way then.
  const Tensor& whole() {
    backend_.synchronize();
    return memory_;
  }

 private:
  Backend& backend_;
  Tensor memory_;
  size_t half_ = 0;
  std::array<std::optional<uint64_t>, 2> marks_;
};

}  // namespace snug
