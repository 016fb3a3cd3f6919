// How threads, blocks and kernels wait for each other, beyond __syncthreads and __syncwarp.
#pragma once

#include <cstdint>

namespace snug::cuda {

// Waits for `threads` of the block, whole warps, that come to the same barrier, or have arrived there (0 is
// __syncthreads').
__device__ inline void wait_at_barrier(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void arrive_at_barrier(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}
// As __syncthreads, for threads that come there from different places of the code.
__device__ inline void wait_for_block() {
  asm volatile("bar.sync 0;\n" ::: "memory");
}

// A number by which blocks tell each other how far they are: what was written before it is there for those
// who read it.
__device__ inline int read_turn(const int32_t* turn) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];\n" : "=r"(value) : "l"(turn) : "memory");
  return value;
}
__device__ inline void pass_turn(int32_t* turn, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;\n" ::"l"(turn), "r"(value) : "memory");
}

// Between two kernels of which the second was launched to start early: it starts when all blocks of the first
// have come here or ended, and waits until the first has ended and its writes are there.
__device__ inline void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}
__device__ inline void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

}  // namespace snug::cuda
