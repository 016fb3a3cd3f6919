// Shared memory by its own addresses: copies into it, and matrices of 8 x 8 numbers of 16 bits between it and
// the registers of a warp.
#pragma once

#include <cstdint>

namespace snug::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline uint32_t read_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(word) : "r"(address));
  return word;
}
__device__ inline void write_word(uint32_t address, uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;\n" ::"r"(address), "r"(word) : "memory");
}
__device__ inline void write_floats(uint32_t address, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};\n" ::"r"(address), "f"(first), "f"(second) : "memory");
}
__device__ inline uint4 read_chunk(uint32_t address) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address));
  return value;
}

// 16 bytes from global to shared memory; zeros if not valid. Asynchronous where the card can (sm_80).
__device__ inline void copy_chunk(uint32_t to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
#else
  uint4 value = valid ? *static_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w));
#endif
}

// Likewise 8 bytes.
__device__ inline void copy_pair(uint32_t to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  int bytes = valid ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
#else
  uint2 value = valid ? *static_cast<const uint2*>(from) : make_uint2(0, 0);
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};\n" ::"r"(to), "r"(value.x), "r"(value.y));
#endif
}

__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;\n");
#endif
}

// Waits until at most kPending of this thread's groups of copies are under way.
template <int kPending>
__device__ inline void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
#endif
}

// Four matrices; lane 8 * m + r has the address of row r of matrix m, and gets of each matrix the pair of
// numbers at row lane / 4, columns 2 * (lane % 4) and the next.
__device__ inline void load_matrices(uint32_t (&fragment)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(address));
}
// The same of the transposed matrices.
__device__ inline void load_matrices_transposed(uint32_t (&fragment)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(address));
}

#if __CUDA_ARCH__ >= 900
// The way back, of four matrices or the first two.
template <int kMatrices>
__device__ inline void store_matrices(uint32_t address, const uint32_t (&fragment)[4]) {
  if constexpr (kMatrices == 4) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address),
                 "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};\n" ::"r"(address),
                 "r"(fragment[0]), "r"(fragment[1])
                 : "memory");
  }
}
#endif

}  // namespace snug::cuda
