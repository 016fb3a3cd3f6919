// How a library may cut a product into tiles, and which of its ways to take on Hopper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace snug::cuda {

// One way to make an m x n result: tiles, the clusters of blocks that make neighbouring ones, and the parts
// that the inner dimension is cut into.
struct Tiling {
  int64_t m = 0;  // 0: not known
  int64_t n = 0;
  int64_t cluster_m = 1;
  int64_t cluster_n = 1;
  int64_t parts = 1;
};

// An m x n result of sums over `inner` products each.
struct TiledProduct {
  int64_t m = 0;
  int64_t n = 0;
  int64_t inner = 0;
  bool adds_wide = false;  // to fp32 numbers, which are read and written
};

// The place of the one to take among a library's guesses, whose best comes first. Hopper's blocks multiply
// with two groups of warps. A tile that fits into the registers of one of them is its own, and is written,
// with what it is added to, while the other group multiplies; a larger one is shared by both, and nothing is
// multiplied meanwhile, but it reads less. So larger ones are best for long sums. The guesses take them for
// all; where the first does so and many sums are short, or too few tiles are made up for by cutting them, or
// fp32 numbers are added to, a tile of one group is taken: the one that leaves the least of the card idle.
// bench/gpu/notes/tilings.md has what that brings.
size_t tiling_for_hopper(std::span<const Tiling> guesses, const TiledProduct& product,
                         int64_t multiprocessors);

}  // namespace snug::cuda
