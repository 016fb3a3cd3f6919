// In place of src/backend/cuda/instructions/copy_engine.cuh.
#pragma once

#include <cuda.h>

#include <cstring>

#include "backend/cuda/instructions/hopper.cuh"
#include "cuda_on_host/tensor_map.h"

namespace snug::cuda {

inline void prefetch_map(const CUtensorMap& /*map*/) {}

inline void start_box(uint32_t to, const CUtensorMap& map, const cuda_on_host::BoxPlace& at,
                      uint32_t barrier) {
  cuda_on_host::copy_for_barrier(barrier,
                                 [=] { change_barrier(barrier, 0, -cuda_on_host::read_box(to, map, at)); });
}
inline void start_panel(uint32_t to, const CUtensorMap& map, int column, int row, int slice,
                        uint32_t barrier) {
  start_box(to, map, {column, row, slice}, barrier);
}
inline void start_panel_for_pair(uint32_t to, const CUtensorMap& map, const int (&at)[3], uint32_t barrier) {
  for (int rank = 0; rank < 2; ++rank) {
    start_box(cuda_on_host::address_in_block(to, rank), map, {at[0], at[1], at[2]},
              cuda_on_host::address_in_block(barrier, rank));
  }
}
inline uint64_t used_once() {
  return 0;
}
inline void start_plane_read(uint32_t to, const CUtensorMap& map, const int (&at)[3], uint32_t barrier,
                             uint64_t /*policy*/) {
  start_box(to, map, {at[0], at[1], at[2]}, barrier);
}
inline void start_plane_write(const CUtensorMap& map, const int (&at)[3], uint32_t from,
                              uint64_t /*policy*/) {
  cuda_on_host::BoxPlace place{at[0], at[1], at[2]};
  cuda_on_host::writes_of_thread().add([=] { cuda_on_host::write_box(map, place, from); });
}

inline std::byte* bytes_at(uint32_t address, int bytes) {
  if (bytes % 16 != 0) {
    cuda_on_host::fail("the copy engine moves 16 bytes at a time");
  }
  return cuda_on_host::shared_at(address, static_cast<size_t>(bytes), 16);
}
inline void start_read(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  cuda_on_host::copy_for_barrier(barrier, [=] {
    std::memcpy(bytes_at(to, bytes), from, static_cast<size_t>(bytes));
    change_barrier(barrier, 0, -bytes);
  });
}
inline void start_write(float* to, uint32_t from, int bytes) {
  cuda_on_host::writes_of_thread().add(
      [=] { std::memcpy(to, bytes_at(from, bytes), static_cast<size_t>(bytes)); });
}
inline void start_add(float* to, uint32_t from, int bytes) {
  cuda_on_host::writes_of_thread().add([=] {
    const auto* values = reinterpret_cast<const float*>(bytes_at(from, bytes));
    for (int i = 0; i < bytes / 4; ++i) {
      to[i] += values[i];
    }
  });
}
inline void wait_read() {
  cuda_on_host::writes_of_thread().end_group();
  cuda_on_host::writes_of_thread().finish(0);
}
inline void wait_written() {
  cuda_on_host::writes_of_thread().finish(0);
}

inline void publish_writes() {}
inline void fence_copy_engine() {}
inline void fence_copy_engine_global() {}

}  // namespace snug::cuda
