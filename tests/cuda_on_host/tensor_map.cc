// A map is what its maker was told.
#include "cuda_on_host/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "cuda_on_host/grid.h"

namespace snug::cuda_on_host {
namespace {

constexpr int64_t kNumberBytes = 2;
constexpr int64_t kChunk = 8;  // numbers: what stays together when rows are swizzled

struct Map {
  std::byte* data;
  std::array<int64_t, 3> sizes;
  std::array<int64_t, 2> stride_bytes;  // of rows and slices
  std::array<int32_t, 3> box;
  bool swizzled;
};
static_assert(sizeof(Map) <= sizeof(CUtensorMap));

// Calls move(global memory, shared memory, the bytes of it that lie inside of the matrix) for each chunk of a
// box.
template <typename Move>
void for_chunks(const Map& map, const BoxPlace& at, uint32_t shared, const Move& move) {
  uint32_t address = shared;
  for (int64_t slice = 0; slice < map.box[2]; ++slice) {
    for (int64_t row = 0; row < map.box[1]; ++row) {
      bool is_inside = at[2] + slice >= 0 && at[2] + slice < map.sizes[2] && at[1] + row >= 0 &&
                       at[1] + row < map.sizes[1];
      std::byte* line =
          map.data + (at[2] + slice) * map.stride_bytes[1] + (at[1] + row) * map.stride_bytes[0];
      for (int64_t i = 0; i < map.box[0]; i += kChunk, address += kChunk * kNumberBytes) {
        int64_t column = at[0] + i;
        int64_t count = is_inside && column >= 0 ? std::min(kChunk, map.sizes[0] - column) : 0;
        uint32_t place = map.swizzled ? address ^ (address >> 7 & 7U) << 4 : address;
        move(line + column * kNumberBytes, shared_at(place, kChunk * kNumberBytes, 16),
             static_cast<size_t>(std::max<int64_t>(count, 0)) * kNumberBytes);
      }
    }
  }
}

Map map_of(const CUtensorMap& map, uint32_t shared) {
  Map ours;
  std::memcpy(&ours, &map, sizeof ours);
  if (shared % 128 != 0) {
    fail("boxes lie at multiples of 128 bytes in shared memory");
  }
  return ours;
}

}  // namespace

CUresult encode_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t dims, void* data,
                    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                    const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                    CUtensorMapL2promotion /*promotion*/, CUtensorMapFloatOOBfill /*fill*/) {
  bool is_known = (type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16) &&
                  dims == 3 && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
                  (swizzle == CU_TENSOR_MAP_SWIZZLE_128B || swizzle == CU_TENSOR_MAP_SWIZZLE_NONE);
  Map ours{static_cast<std::byte*>(data), {}, {}, {}, swizzle == CU_TENSOR_MAP_SWIZZLE_128B};
  bool is_allowed = reinterpret_cast<uintptr_t>(data) % 16 == 0;
  for (size_t i = 0; i < 3; ++i) {
    ours.sizes[i] = static_cast<int64_t>(sizes[i]);
    ours.box[i] = static_cast<int32_t>(box[i]);
    is_allowed = is_allowed && sizes[i] > 0 && box[i] > 0 && box[i] <= 256 && steps[i] == 1;
  }
  for (size_t i = 0; i < 2; ++i) {
    ours.stride_bytes[i] = static_cast<int64_t>(strides[i]);
    is_allowed = is_allowed && strides[i] % 16 == 0;
  }
  int64_t row_bytes = ours.box[0] * kNumberBytes;
  is_allowed = is_allowed && row_bytes % 16 == 0 && (!ours.swizzled || row_bytes <= 128);
  if (!is_known || !is_allowed) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(map, &ours, sizeof ours);
  return CUDA_SUCCESS;
}

int read_box(uint32_t to, const CUtensorMap& map, const BoxPlace& at) {
  Map ours = map_of(map, to);
  for_chunks(ours, at, to, [](const std::byte* global, std::byte* shared, size_t bytes) {
    std::memset(shared, 0, kChunk * kNumberBytes);
    if (bytes > 0) {
      std::memcpy(shared, global, bytes);
    }
  });
  return static_cast<int>(ours.box[0] * ours.box[1] * ours.box[2] * kNumberBytes);
}

void write_box(const CUtensorMap& map, const BoxPlace& at, uint32_t from) {
  for_chunks(map_of(map, from), at, from, [](std::byte* global, const std::byte* shared, size_t bytes) {
    if (bytes > 0) {
      std::memcpy(global, shared, bytes);
    }
  });
}

}  // namespace snug::cuda_on_host
