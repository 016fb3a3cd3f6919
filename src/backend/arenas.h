// What every backend keeps about the arenas that it has taken, one a home: the same books for all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "program/buffer.h"

namespace snug {

struct KernelCall;

struct Arena {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t announced_bytes = 0;  // from its start to the end of what was to be written
  bool taken = false;

  bool contains(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    return data != nullptr && byte >= data && byte < data + bytes;
  }
};

class Arenas {
 public:
  const Arena& of(Home home) const { return arenas_[static_cast<size_t>(home)]; }

  // An arena is taken once; an empty one has no address.
  void require_free(Home home, int64_t bytes) const;
  void take(Home home, std::byte* data, int64_t bytes);

  // What a call or a copy is about to write. A write that ends behind its arena is a bug.
  void announce(const KernelCall& call);
  void announce(const void* address, int64_t bytes);
  // The end of all that was announced, rounded up to kAlignment, at most the arena's size.
  int64_t announced_bytes(Home home) const;

 private:
  std::array<Arena, kHomeCount> arenas_{};
};

}  // namespace snug
