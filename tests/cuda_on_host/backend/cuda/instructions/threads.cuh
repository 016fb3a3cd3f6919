// In place of src/backend/cuda/instructions/threads.cuh.
#pragma once

#include <cstdint>

#include "cuda_on_host/grid.h"

namespace snug::cuda {

inline void wait_at_barrier(int barrier, int threads) {
  cuda_on_host::wait_at(barrier, threads);
}
inline void arrive_at_barrier(int barrier, int threads) {
  cuda_on_host::arrive_at(barrier, threads);
}
inline void wait_for_block() {
  cuda_on_host::meet(cuda_on_host::Those::block);
}

// Who reads it waits for others.
inline int read_turn(const int32_t* turn) {
  cuda_on_host::let_others_go_on();
  return *turn;
}
inline void pass_turn(int32_t* turn, int value) {
  *turn = value;
  cuda_on_host::tell_others();
}

// A kernel begins when the one before it has ended.
inline void let_next_kernel_start() {}
inline void wait_for_kernel_before() {}

}  // namespace snug::cuda
