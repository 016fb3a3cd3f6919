// Cuts a kernel's planned workspace into typed pieces. It never allocates: what a kernel takes here, its
// workspace function has counted with padded_bytes_of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace snug {

// Pieces start at multiples of `kAlignment` bytes, which each backend chooses.
template <int64_t kAlignment>
class AlignedScratch {
 public:
  explicit AlignedScratch(std::span<std::byte> memory) : memory_(memory) {}

  template <typename T>
  static constexpr int64_t padded_bytes_of(int64_t count) {
    int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  template <typename T>
  T* take(int64_t count) {
    auto bytes = static_cast<size_t>(padded_bytes_of<T>(count));
    SNUG_CHECK(bytes <= memory_.size(), "a kernel takes more workspace than it planned");
    T* piece = reinterpret_cast<T*>(memory_.data());
    memory_ = memory_.subspan(bytes);
    return piece;
  }
  std::span<std::byte> rest() const { return memory_; }

 private:
  std::span<std::byte> memory_;
};

}  // namespace snug
