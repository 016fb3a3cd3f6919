// In place of CUDA's header: copies to shared memory are done when they are asked for.
#pragma once

#include <cstddef>
#include <cstring>

inline void __pipeline_memcpy_async(void* target, const void* source, size_t bytes) {
  std::memcpy(target, source, bytes);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t /*groups*/) {}
