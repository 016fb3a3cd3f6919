// Memory of CUDA's runtime: a card's and pinned memory, and copies between all kinds.
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <vector>

#include "cuda_on_host/host_card.h"
#include "cuda_on_host/stream.h"

using namespace snug::cuda_on_host;

namespace {

// What was taken: addresses and sizes.
class Taken {
 public:
  cudaError_t take(void** address, size_t bytes) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return cudaErrorMemoryAllocation;
    }
    pieces_[static_cast<std::byte*>(memory)] = bytes;
    all_bytes_ += bytes;
    *address = memory;
    return cudaSuccess;
  }
  cudaError_t give_back(void* address) {
    if (address == nullptr) {
      return cudaSuccess;
    }
    auto found = pieces_.find(static_cast<std::byte*>(address));
    if (found == pieces_.end()) {
      return cudaErrorInvalidValue;
    }
    finish();  // it may still be used
    ::munmap(address, found->second);
    all_bytes_ -= found->second;
    pieces_.erase(found);
    return cudaSuccess;
  }
  bool holds(const void* address) const {
    auto next = pieces_.upper_bound(static_cast<std::byte*>(const_cast<void*>(address)));
    return next != pieces_.begin() && (--next, address < next->first + next->second);
  }
  size_t all_bytes() const { return all_bytes_; }

 private:
  std::map<std::byte*, size_t> pieces_;
  size_t all_bytes_ = 0;
};

Taken on_card;
Taken pinned;

bool is_pageable(const void* address) {
  return !on_card.holds(address) && !pinned.holds(address);
}

}  // namespace

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return on_card.all_bytes() + bytes > kCardBytes ? cudaErrorMemoryAllocation : on_card.take(address, bytes);
}
cudaError_t cudaFree(void* address) {
  return on_card.give_back(address);
}
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned /*flags*/) {
  return pinned.take(address, bytes);
}
cudaError_t cudaFreeHost(void* address) {
  return pinned.give_back(address);
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* all_bytes) {
  *all_bytes = kCardBytes;
  *free_bytes = kCardBytes - on_card.all_bytes();
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t /*stream*/) {
  enqueue([=] { std::memset(target, value, bytes); });
  return cudaSuccess;
}

// Pageable memory is read at once, and written when everything before has been done.
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t /*stream*/) {
  if (is_pageable(source)) {
    const auto* first = static_cast<const std::byte*>(source);
    enqueue([target, held = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(target, held.data(), held.size());
    });
    return cudaSuccess;
  }
  enqueue([=] { std::memcpy(target, source, bytes); });
  if (is_pageable(target)) {
    finish();
  }
  return cudaSuccess;
}
