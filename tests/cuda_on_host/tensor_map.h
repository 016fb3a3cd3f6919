// Boxes of matrices [slices, rows, columns] of 16-bit numbers, as Hopper's copy engine moves them.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

namespace snug::cuda_on_host {

// Column, row and slice.
using BoxPlace = std::array<int, 3>;

// The driver's function in place of which ours makes maps.
CUresult encode_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t dims, void* data,
                    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                    const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

// To shared memory, with zeros for what lies outside of the matrix. Returns the bytes that were written.
int read_box(uint32_t to, const CUtensorMap& map, const BoxPlace& at);
// From shared memory; what lies outside is left out.
void write_box(const CUtensorMap& map, const BoxPlace& at, uint32_t from);

}  // namespace snug::cuda_on_host
