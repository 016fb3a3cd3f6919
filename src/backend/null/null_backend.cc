// Recording calls.
#include "backend/null/null_backend.h"

#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"

namespace snug {

void NullBackend::Release::operator()(std::byte* memory) const {
  std::free(memory);
}

std::byte* NullBackend::allocate_arena(Home home, int64_t bytes) {
  arenas_.require_free(home, bytes);
  auto& memory = memory_[static_cast<size_t>(home)];
  if (bytes > 0) {
    auto rounded = static_cast<size_t>(align_up(bytes));
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (memory == nullptr) {
      throw environment_error("the null backend got no memory for an arena of " + format_bytes(bytes));
    }
    std::memset(memory.get(), 0, rounded);
  }
  arenas_.take(home, memory.get(), bytes);
  return memory.get();
}

void NullBackend::run(const KernelCall& call) {
  calls_.push_back({.name = call.op.name,
                    .kind = call.op.kind,
                    .inputs = {call.inputs.begin(), call.inputs.end()},
                    .outputs = {call.outputs.begin(), call.outputs.end()},
                    .workspace = call.workspace.data(),
                    .workspace_bytes = static_cast<int64_t>(call.workspace.size())});
  arenas_.announce(call);
}

void NullBackend::upload(void* device, const void* host, int64_t bytes) {
  arenas_.announce(device, bytes);
  std::memcpy(device, host, static_cast<size_t>(bytes));
}

void NullBackend::download(void* host, const void* device, int64_t bytes) {
  std::memcpy(host, device, static_cast<size_t>(bytes));
}

}  // namespace snug
