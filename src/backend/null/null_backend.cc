// Recording calls.
#include "backend/null/null_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"

namespace snug {

void NullBackend::Release::operator()(std::byte* memory) const {
  std::free(memory);
}

std::byte* NullBackend::allocate_arena(Home home, int64_t bytes) {
  Arena& arena = arenas_[static_cast<size_t>(home)];
  SNUG_CHECK(!arena.taken, "an arena is taken twice");
  SNUG_CHECK(bytes >= 0, "an arena of negative size");
  if (bytes > 0) {
    auto rounded = static_cast<size_t>(align_up(bytes));
    arena.data.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (arena.data == nullptr) {
      throw environment_error("the null backend got no memory for an arena of " + format_bytes(bytes));
    }
    std::memset(arena.data.get(), 0, rounded);
  }
  arena.taken = true;
  arena.bytes = bytes;
  return arena.data.get();
}

int64_t NullBackend::allocated_bytes(Home home) const {
  return arenas_[static_cast<size_t>(home)].bytes;
}

int64_t NullBackend::touched_bytes(Home home) const {
  const Arena& arena = arenas_[static_cast<size_t>(home)];
  return std::min(align_up(arena.touched_bytes), arena.bytes);
}

void NullBackend::note_write(const void* address, int64_t bytes) {
  const auto* begin = static_cast<const std::byte*>(address);
  for (Arena& arena : arenas_) {
    if (arena.data != nullptr && begin >= arena.data.get() && begin < arena.data.get() + arena.bytes) {
      arena.touched_bytes = std::max(arena.touched_bytes, begin - arena.data.get() + bytes);
      return;
    }
  }
}

void NullBackend::run(const KernelCall& call) {
  calls_.push_back({.name = call.op.name,
                    .kind = call.op.kind,
                    .inputs = {call.inputs.begin(), call.inputs.end()},
                    .outputs = {call.outputs.begin(), call.outputs.end()},
                    .workspace = call.workspace.data(),
                    .workspace_bytes = static_cast<int64_t>(call.workspace.size())});
  for (const Tensor& output : call.outputs) {
    note_write(output.data, output.data == nullptr ? 0 : output.bytes());
  }
  note_write(call.workspace.data(), static_cast<int64_t>(call.workspace.size()));
}

void NullBackend::upload(void* device, const void* host, int64_t bytes) {
  note_write(device, bytes);
  std::memcpy(device, host, static_cast<size_t>(bytes));
}

void NullBackend::download(void* host, const void* device, int64_t bytes) {
  std::memcpy(host, device, static_cast<size_t>(bytes));
}

}  // namespace snug
