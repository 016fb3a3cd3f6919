// How Hopper's copy engine is told of a matrix of heads.
#pragma once

#include "backend/cuda/attention/hopper.cuh"
#include "backend/cuda/instructions/copy_engine.cuh"

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

// It is read in tiles of `tile_rows` rows and 64 columns of one head, laid out as panels (chunk_offset), with
// zeros beyond the head's last column.
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

}  // namespace snug::cuda
