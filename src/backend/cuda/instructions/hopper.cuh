// What Hopper has beyond earlier cards: barriers in shared memory, blocks that are clusters, registers that
// warps hand to each other. Needs code built for sm_90a (SNUG_HOPPER).
#pragma once

#include <cstdint>

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define SNUG_HOPPER 1
#endif

namespace snug::cuda {

#ifdef SNUG_HOPPER

// ---- barriers of 8 bytes in shared memory: a phase is over when all have arrived and all bytes are there
// ----

__device__ inline void start_barrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals));
}
// Barriers that were started are seen by the cluster and by the copy engine, when the threads have met.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
// At the same barrier of another block of the cluster.
__device__ inline void arrive_in_cluster(uint32_t barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
// Arrives, and expects so many bytes more from the copy engine.
__device__ inline void expect_bytes(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline bool has_completed(uint32_t barrier, int parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// ---- clusters: blocks that share one piece of work, and can read each other's shared memory ----

__device__ inline int cluster_size() {
  int size;
  asm("mov.u32 %0, %%cluster_nctaid.x;\n" : "=r"(size));
  return size;
}
__device__ inline int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}
// All threads of all blocks of the cluster; what they wrote before arriving is visible after waiting.
__device__ inline void arrive_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
}
__device__ inline void wait_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
__device__ inline float4 read_cluster(uint32_t address, int rank) {
  float4 value;
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}\n"
      : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
      : "r"(address), "r"(rank)
      : "memory");
  return value;
}

// ---- registers of a warpgroup's threads ----

template <int kRegisters>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

#endif  // SNUG_HOPPER

}  // namespace snug::cuda
