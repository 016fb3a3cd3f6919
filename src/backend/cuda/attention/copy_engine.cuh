// Hopper's copy engine: tiles between global and shared memory by one thread's order, and the fences between
// it and ordinary reads and writes.
#pragma once

#include <cuda.h>

#include "backend/cuda/attention/hopper.cuh"

namespace snug::cuda {

using EncodeTensorMap = decltype(&cuTensorMapEncodeTiled);

// The driver's function; null: not there.
inline EncodeTensorMap find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                        cudaEnableDefault, &result);
  return status == cudaSuccess && result == cudaDriverEntryPointSuccess
             ? reinterpret_cast<EncodeTensorMap>(function)
             : nullptr;
}

// A matrix [rows, heads, head_dim] of queries or of keys.
struct HeadMatrix {
  const void* data = nullptr;
  int64_t stride = 0;  // elements from one row to the next
  int heads = 0;
  int64_t rows = 0;
};

// It is read in tiles of `tile_rows` rows and 64 columns of one head.
inline bool make_map(CUtensorMap& map, const AttentionArguments& a, const HeadMatrix& matrix, int tile_rows) {
  static const EncodeTensorMap encode = find_encoder();
  if (encode == nullptr) {
    return false;
  }
  auto type =
      a.p.number == AttentionNumber::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  cuuint64_t sizes[3] = {static_cast<cuuint64_t>(a.p.head_dim), static_cast<cuuint64_t>(matrix.heads),
                         static_cast<cuuint64_t>(matrix.rows)};
  cuuint64_t strides[2] = {static_cast<cuuint64_t>(a.p.head_dim) * 2,
                           static_cast<cuuint64_t>(matrix.stride) * 2};
  cuuint32_t box[3] = {64, 1, static_cast<cuuint32_t>(tile_rows)};
  cuuint32_t steps[3] = {1, 1, 1};
  return encode(&map, type, 3, const_cast<void*>(matrix.data), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#ifdef SNUG_HOPPER

// A tile of a matrix [rows, heads, head_dim] from global to shared memory by the copy engine: 64 columns of
// one head from `column` on, laid out as a panel (chunk_offset), zeros beyond the head's last column. Its
// bytes are counted by the barrier, which expects them.
__device__ inline void start_panel(uint32_t to, const CUtensorMap& map, int column, int head, int row,
                                   uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];\n" ::"r"(to),
      "l"(&map), "r"(column), "r"(head), "r"(row), "r"(barrier)
      : "memory");
}
// Before it is first used.
__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}
__device__ inline void start_read(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ inline void expect_bytes(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}

// Shared memory to global memory by the copy engine: all bytes are written, or added as floats. The address
// and size are multiples of 16.
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
