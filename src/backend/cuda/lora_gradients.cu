// Both gradients of LoRA's up product on Hopper, for few tokens: there the library's products, two a part,
// are launches of a few microseconds that leave most of the card idle. Here they are one launch.
#include "backend/cuda/lora_gradients.h"

#include <algorithm>

#include "backend/cuda/attention/kernels.h"
#include "backend/cuda/check.h"
#include "backend/cuda/lora_gradients.cuh"
#include "program/operands.h"

namespace snug::cuda {
namespace {

// A tile of the down product's gradient is shared by no more blocks than leave each this many steps.
constexpr int kFewestSteps = 4;
// Of the clusters that the card has at work, one in so many at least is to make dB.
constexpr int kLeastShareOfDb = 3;

cudaLaunchConfig_t launch_config(int clusters, int shared_bytes, cudaLaunchAttribute& cluster) {
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = kCluster;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * kCluster));
  config.blockDim = dim3(kHopperThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  return config;
}

// Clusters that it takes to make the down product's gradient; the slices get to know theirs.
template <class Shape>
int place_ddown(LoraGradientArguments& a) {
  constexpr int kRankTiles = Shape::kRanks / Shape::kTileRanks;
  int clusters = 0;
  for (int i = 0; i < a.slices; ++i) {
    LoraSlice& slice = a.slice[i];
    slice.first_cluster = clusters;
    if (slice.ddown != nullptr) {
      int tiles = tiles_of(a.tokens, kBoxTokens) * kRankTiles;
      clusters += tiles_of(tiles, kCluster / slice.splits);
    }
  }
  return clusters;
}

enum class Room { any, beside };

// With Room::beside, only if dB can be made beside the other gradient. The number of blocks and the tiles'
// sizes change no bit.
template <typename T, class Shape>
bool launch(LoraGradientArguments a, Room wanted, cudaStream_t stream) {
  auto* kernel = lora_gradients_kernel<T, Shape>;
  if (!hopper_is_built(kernel)) {
    return false;
  }
  static const int kWorking = count_clusters(kernel, {1, kHopperThreads, Shape::kBytes, 1, kCluster});
  if (kWorking == 0) {
    return false;
  }
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kBytes),
        "the gradients of an adapter");
  a.ddown_clusters = place_ddown<Shape>(a);
  int room = kWorking - a.ddown_clusters;
  bool has_room = room >= kWorking / kLeastShareOfDb;
  if (wanted == Room::beside && !has_room) {
    return false;
  }
  // Where there is none, dB is made behind the other.
  int db_clusters = std::min(tiles_of(a.chunks, kCluster), has_room ? room : kWorking);
  cudaLaunchAttribute cluster{};
  cudaLaunchConfig_t config = launch_config(a.ddown_clusters + db_clusters, Shape::kBytes, cluster);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, a), "the gradients of an adapter");
  return true;
}

// Small tiles, which spread reading over more blocks, if there is room for them.
template <typename T>
bool launch_for_size(const LoraGradientArguments& a, cudaStream_t stream) {
  if (a.rank <= 64) {
    return launch<T, LoraGradientShape<64, 64>>(a, Room::any, stream);
  }
  return launch<T, LoraGradientShape<128, 64>>(a, Room::beside, stream) ||
         launch<T, LoraGradientShape<128, 128>>(a, Room::any, stream);
}

// Boxes of 64 columns of a slice of a matrix, from `first` on.
struct SliceShape {
  int64_t first = 0;
  int64_t columns = 0;
  int64_t rows = 0;
  int box_rows = 0;
};
bool make_slice_map(CUtensorMap& map, const Tensor& matrix, const SliceShape& slice) {
  Tensor part = matrix;
  part.data = matrix.as<char>() + slice.first * 2;
  return make_map(map, part,
                  {.columns = slice.columns,
                   .rows = slice.rows,
                   .row_stride = matrix.columns(),
                   .slice_stride = matrix.elements(),
                   .box_columns = kBox,
                   .box_rows = slice.box_rows});
}

// Of the ranks from `rank` on of a part.
bool add_slice(LoraGradientArguments& a, const KernelCall& call, size_t part_index, int64_t rank) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  const auto& attributes = attributes_of<LoraAttributes>(call.op);
  const LoraPart& part = attributes.parts[part_index];
  if (a.slices == kMostSlices || part.y_column % 8 != 0) {
    return false;
  }
  LoraSliceMaps& maps = a.maps[a.slices];
  LoraSlice& slice = a.slice[a.slices++];
  int64_t down_column = static_cast<int64_t>(part_index) * attributes.rank + rank;
  int64_t b_first = part.b_row * attributes.rank + rank;
  slice.rows = static_cast<int>(part.rows);
  slice.ranks = static_cast<int>(std::min<int64_t>(kMostRanks, attributes.rank - rank));
  slice.first_chunk = a.chunks;
  if (!make_slice_map(maps.dy, call.inputs[In::dy], {part.y_column, part.rows, a.tokens, kBoxTokens})) {
    return false;
  }
  if (call.has_output(Out::ddown)) {
    slice.ddown = call.outputs[Out::ddown].as<char>() + down_column * 2;
    int steps = static_cast<int>(blocks_for(part.rows, kBox));
    while (slice.splits < kCluster && steps > kFewestSteps * slice.splits) {
      slice.splits *= 2;
    }
    if (!make_slice_map(maps.b, call.inputs[In::b], {b_first, slice.ranks, part.rows, kBox})) {
      return false;
    }
  }
  if (call.has_output(Out::db)) {
    slice.db = call.outputs[Out::db].as<float>() + b_first;
    a.chunks += static_cast<int>(blocks_for(part.rows, kBox));
    if (!make_slice_map(maps.down, call.inputs[In::down], {down_column, slice.ranks, a.tokens, kBoxTokens})) {
      return false;
    }
  }
  return true;
}

// 16-bit matrices of one dtype, and dB in fp32, whose rows the copy engine can fetch.
bool has_fitting_operands(const KernelCall& call) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  const Tensor& dy = call.inputs[In::dy];
  auto fits = [&](const Tensor& matrix) { return matrix.dtype == dy.dtype && has_whole_vectors(matrix); };
  bool makes_ddown = call.has_output(Out::ddown);
  bool makes_db = call.has_output(Out::db);
  return dy.dtype != DType::f32 && fits(dy) &&
         (!makes_ddown || (fits(call.inputs[In::b]) && fits(call.outputs[Out::ddown]))) &&
         (!makes_db || (fits(call.inputs[In::down]) && call.outputs[Out::db].dtype == DType::f32 &&
                        has_whole_vectors(call.outputs[Out::db])));
}

}  // namespace

bool hopper_lora_gradients(const KernelCall& call, cudaStream_t stream) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  const auto& attributes = attributes_of<LoraAttributes>(call.op);
  const Tensor& dy = call.inputs[In::dy];
  // The down product of more tokens does not fit into shared memory, and the library's products then fill the
  // card. Small ranks have kernels of their own (lora_thin.h).
  if (dy.rows() == 0 || dy.rows() > kMostTokens || attributes.rank <= kSmallRank ||
      attributes.rank % 8 != 0 || !has_fitting_operands(call)) {
    return false;
  }
  LoraGradientArguments a;
  a.tokens = static_cast<int>(dy.rows());
  a.rank = static_cast<int>(attributes.rank);
  a.down_stride = static_cast<int64_t>(attributes.parts.size()) * attributes.rank;
  a.scale = attributes.scale;
  a.add_ddown = call.op.accumulates_output(Out::ddown);
  a.add_db = call.op.accumulates_output(Out::db);
  for (size_t part = 0; part < attributes.parts.size(); ++part) {
    for (int64_t rank = 0; rank < attributes.rank; rank += kMostRanks) {
      if (!add_slice(a, call, part, rank)) {
        return false;
      }
    }
  }
  return dy.dtype == DType::f16 ? launch_for_size<__half>(a, stream)
                                : launch_for_size<__nv_bfloat16>(a, stream);
}

}  // namespace snug::cuda
