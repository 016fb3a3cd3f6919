// In place of src/backend/cuda/instructions/shared_memory.cuh.
#pragma once

#include <cstdint>
#include <cstring>

#include "cuda_on_host/grid.h"

namespace snug::cuda {

inline uint32_t shared_address(const void* pointer) {
  return cuda_on_host::address_in_shared(pointer);
}

template <typename T>
T read_shared(uint32_t address) {
  T value;
  std::memcpy(&value, cuda_on_host::shared_at(address, sizeof value, sizeof value), sizeof value);
  return value;
}
template <typename T>
void write_shared(uint32_t address, const T& value) {
  std::memcpy(cuda_on_host::shared_at(address, sizeof value, sizeof value), &value, sizeof value);
}

inline uint32_t read_word(uint32_t address) {
  return read_shared<uint32_t>(address);
}
inline void write_word(uint32_t address, uint32_t word) {
  write_shared(address, word);
}
inline void write_floats(uint32_t address, float first, float second) {
  write_shared(address, make_float2(first, second));
}
inline uint4 read_chunk(uint32_t address) {
  return read_shared<uint4>(address);
}

template <typename T>
void copy_to_shared(uint32_t to, const void* from, bool valid) {
  cuda_on_host::copies_of_thread().add([=] {
    T value{};
    if (valid) {
      std::memcpy(&value, from, sizeof value);
    }
    write_shared(to, value);
  });
}
inline void copy_chunk(uint32_t to, const void* from, bool valid) {
  copy_to_shared<uint4>(to, from, valid);
}
inline void copy_pair(uint32_t to, const void* from, bool valid) {
  copy_to_shared<uint2>(to, from, valid);
}
inline void commit_copies() {
  cuda_on_host::copies_of_thread().end_group();
}
template <int kPending>
void wait_copies() {
  cuda_on_host::copies_of_thread().finish(kPending);
}

// Matrices of 8 x 8 numbers of 16 bits.
struct MatrixOperand {
  uint32_t* fragment;
  uint32_t address;
};
inline const MatrixOperand& matrix_operand(void* const* given, int lane) {
  if (given[lane] == nullptr) {
    cuda_on_host::fail("a matrix needs all threads of a warp");
  }
  return *static_cast<const MatrixOperand*>(given[lane]);
}

template <bool kTransposed, int kMatrices, bool kStores>
void move_matrices(void* const* given, int /*count*/) {
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    uint16_t rows[8][8];
    auto move_row = [&](int row) {
      return cuda_on_host::shared_at(matrix_operand(given, 8 * matrix + row).address, sizeof rows[row],
                                     sizeof rows[row]);
    };
    if constexpr (!kStores) {
      for (int row = 0; row < 8; ++row) {
        std::memcpy(rows[row], move_row(row), sizeof rows[row]);
      }
    }
    for (int lane = 0; lane < cuda_on_host::kWarpThreads; ++lane) {
      uint32_t& pair = matrix_operand(given, lane).fragment[matrix];
      for (int i = 0; i < 2; ++i) {
        int row = kTransposed ? 2 * (lane % 4) + i : lane / 4;
        int column = kTransposed ? lane / 4 : 2 * (lane % 4) + i;
        if constexpr (kStores) {
          rows[row][column] = static_cast<uint16_t>(pair >> 16 * i);
        } else {
          pair = (i == 0 ? 0 : pair) | static_cast<uint32_t>(rows[row][column]) << 16 * i;
        }
      }
    }
    if constexpr (kStores) {
      for (int row = 0; row < 8; ++row) {
        std::memcpy(move_row(row), rows[row], sizeof rows[row]);
      }
    }
  }
}

inline void load_matrices(uint32_t (&fragment)[4], uint32_t address) {
  MatrixOperand mine{fragment, address};
  cuda_on_host::meet(cuda_on_host::Those::warp, &mine, move_matrices<false, 4, false>);
}
inline void load_matrices_transposed(uint32_t (&fragment)[4], uint32_t address) {
  MatrixOperand mine{fragment, address};
  cuda_on_host::meet(cuda_on_host::Those::warp, &mine, move_matrices<true, 4, false>);
}
template <int kMatrices>
void store_matrices(uint32_t address, const uint32_t (&fragment)[4]) {
  MatrixOperand mine{const_cast<uint32_t*>(fragment), address};
  cuda_on_host::meet(cuda_on_host::Those::warp, &mine, move_matrices<false, kMatrices, true>);
}

}  // namespace snug::cuda
