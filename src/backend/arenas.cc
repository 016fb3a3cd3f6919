// The books of arenas.
#include "backend/arenas.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/backend.h"
#include "base/bytes.h"
#include "base/check.h"
#include "ops/effects.h"

namespace snug {

void Arenas::require_free(Home home, int64_t bytes) const {
  SNUG_CHECK(!of(home).taken, fmt::format("the {} arena is taken twice", name_of(home)));
  SNUG_CHECK(bytes >= 0, "an arena of negative size");
}

void Arenas::take(Home home, std::byte* data, int64_t bytes) {
  require_free(home, bytes);
  arenas_[static_cast<size_t>(home)] = {.data = data, .bytes = bytes, .taken = true};
}

std::byte* Backend::arena(Home home, int64_t bytes) {
  const Arena& taken = arenas_.of(home);
  if (!taken.taken) {
    return allocate_arena(home, bytes);
  }
  SNUG_CHECK(taken.bytes >= bytes, "an arena that was taken is too small for this plan");
  return taken.data;
}

void Arenas::announce(const KernelCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.has_input(i) && changes(effect_on_input(call.op, i))) {
      announce(call.inputs[i].data, call.inputs[i].bytes());
    }
  }
  for (const Tensor& output : call.outputs) {
    announce(output.data, output.data == nullptr ? 0 : output.bytes());
  }
  announce(call.workspace.data(), static_cast<int64_t>(call.workspace.size()));
}

void Arenas::announce(const void* address, int64_t bytes) {
  for (Arena& arena : arenas_) {
    if (arena.contains(address)) {
      int64_t end = static_cast<const std::byte*>(address) - arena.data + bytes;
      SNUG_CHECK(end <= arena.bytes,
                 fmt::format("a write ends {} bytes behind its arena", end - arena.bytes));
      arena.announced_bytes = std::max(arena.announced_bytes, end);
      return;
    }
  }
}

int64_t Arenas::announced_bytes(Home home) const {
  return std::min(align_up(of(home).announced_bytes), of(home).bytes);
}

}  // namespace snug
