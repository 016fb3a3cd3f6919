// In place of src/backend/cuda/instructions/hopper.cuh.
#pragma once

#include <cstdint>

#include "backend/cuda/instructions/shared_memory.cuh"
#include "cuda_on_host/grid.h"

#define SNUG_HOPPER 1

namespace snug::cuda {

// What a barrier's 8 bytes are here.
struct BarrierState {
  int32_t bytes;       // that are expected
  uint16_t arrivals;   // that are expected
  uint16_t all : 15;   // arrivals of a phase
  uint16_t phase : 1;  // its parity
};

inline void start_barrier(uint32_t barrier, int arrivals) {
  write_shared(barrier, BarrierState{0, static_cast<uint16_t>(arrivals), static_cast<uint16_t>(arrivals), 0});
}
inline void publish_barriers() {}

inline void change_barrier(uint32_t barrier, int arrivals, int bytes) {
  auto state = read_shared<BarrierState>(barrier);
  if (state.all == 0x7fff || state.arrivals < arrivals) {
    cuda_on_host::fail("a barrier that was not started, or at which more arrive than it waits for");
  }
  state.arrivals = static_cast<uint16_t>(state.arrivals - arrivals);
  state.bytes += bytes;
  if (state.arrivals == 0 && state.bytes == 0) {
    state.arrivals = state.all;
    state.phase ^= 1;
    cuda_on_host::tell_others();
  }
  write_shared(barrier, state);
}
inline void arrive(uint32_t barrier) {
  change_barrier(barrier, 1, 0);
}
inline void arrive_in_cluster(uint32_t barrier, int rank) {
  change_barrier(cuda_on_host::address_in_block(barrier, rank), 1, 0);
}
inline void expect_bytes(uint32_t barrier, int bytes) {
  change_barrier(barrier, 1, bytes);
}
inline bool has_completed(uint32_t barrier, int parity) {
  auto is_over = [&] { return read_shared<BarrierState>(barrier).phase != parity; };
  if (!is_over() && !(cuda_on_host::finish_copies_for(barrier) && is_over())) {
    cuda_on_host::let_others_go_on();
  }
  return is_over();
}

inline int cluster_size() {
  return cuda_on_host::blocks_of_cluster();
}
inline int cluster_rank() {
  return cuda_on_host::rank_in_cluster();
}
inline void arrive_cluster() {
  cuda_on_host::arrive_at_cluster();
}
inline void wait_cluster() {
  cuda_on_host::wait_for_cluster();
}
inline float4 read_cluster(uint32_t address, int rank) {
  return read_shared<float4>(cuda_on_host::address_in_block(address, rank));
}

template <int kRegisters>
void shrink_registers() {}
template <int kRegisters>
void grow_registers() {}

}  // namespace snug::cuda
