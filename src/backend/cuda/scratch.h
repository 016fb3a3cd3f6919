// Cuts a kernel's planned workspace into typed pieces. It never allocates: what a kernel takes here, its
// workspace function has counted with padded_bytes_of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/check.h"

namespace snug::cuda {

template <typename T>
constexpr int64_t padded_bytes_of(int64_t count) {
  return align_up(count * static_cast<int64_t>(sizeof(T)));
}

class Scratch {
 public:
  explicit Scratch(std::span<std::byte> memory) : memory_(memory) {}

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

}  // namespace snug::cuda
