// Hopper's copy engine: boxes of matrices between global and shared memory by one thread's order, and the
// fences between it and ordinary reads and writes.
#pragma once

#include <cuda.h>

#include "backend/cuda/instructions/hopper.cuh"

namespace snug::cuda {

#ifdef SNUG_HOPPER

// Before it is first used.
__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}
// A box of a matrix [slices, rows, columns] to shared memory, zeros for what lies outside of the matrix. Its
// bytes are counted by the barrier, which expects them.
__device__ inline void start_panel(uint32_t to, const CUtensorMap& map, int column, int row, int slice,
                                   uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];\n" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(slice), "r"(barrier)
      : "memory");
}
// To the same place of the shared memory of a cluster's first two blocks; each block's own barrier counts its
// bytes.
__device__ inline void start_panel_for_pair(uint32_t to, const CUtensorMap& map, const int (&at)[3],
                                            uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;\n" ::"r"(to),
      "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(barrier), "h"(static_cast<uint16_t>(3))
      : "memory");
}
// What is read and written once is to leave the operands in the L2 cache.
__device__ inline uint64_t used_once() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
  return policy;
}
__device__ inline void start_plane_read(uint32_t to, const CUtensorMap& map, const int (&at)[3],
                                        uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%2, %3, %4}], [%5], %6;\n" ::"r"(to),
      "l"(&map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ inline void start_plane_write(const CUtensorMap& map, const int (&at)[3], uint32_t from,
                                         uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%1, %2, %3}], [%4], "
      "%5;\n" ::"l"(&map),
      "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(from), "l"(policy)
      : "memory");
}

// Bytes in a row; address and size are multiples of 16.
__device__ inline void start_read(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// Shared memory to global memory: all bytes are written, or added as floats.
__device__ inline void start_write(float* to, uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}
__device__ inline void start_add(float* to, uint32_t from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n" ::"l"(to),
               "r"(from), "r"(bytes)
               : "memory");
}
// The shared memory of what this thread has started may be written again.
__device__ inline void wait_read() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n" ::: "memory");
}
// It is in global memory.
__device__ inline void wait_written() {
  asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory");
}

// Ordinary writes to shared memory become visible to the copy engine and to products.
__device__ inline void publish_writes() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
// Between the copy engine and ordinary reads and writes, in either order.
__device__ inline void fence_copy_engine() {
  asm volatile("fence.proxy.async;\n" ::: "memory");
}
// Of global memory alone, which costs less.
__device__ inline void fence_copy_engine_global() {
  asm volatile("fence.proxy.async.global;\n" ::: "memory");
}

#endif  // SNUG_HOPPER

}  // namespace snug::cuda
