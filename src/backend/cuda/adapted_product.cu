// linear and linear_backward_input with an adapter, on Hopper: the share is a few steps more of the product's
// sums. Tiles have 192 columns; planes are panels of 64 columns of a round's 64 tokens.
#include "backend/cuda/adapted_product.h"

#include "backend/cuda/hopper_product.cuh"
#include "program/operands.h"

namespace snug::cuda {
namespace {

// An adapter's parts begin at multiples of this many features.
constexpr int kPartFeatures = 32;
// Where there is more of it, the library's product and the share by itself were faster.
constexpr int kMostShareSteps = 1;

// By columns: the weight is [depth, features], as for a gradient.
template <typename Number, bool kWeightByColumns>
struct AdaptedShape : RegisterSplit<24, 240> {
  using T = Number;
  static constexpr bool kByColumns = kWeightByColumns;
  static constexpr int kStages = 5;
  static constexpr int kFeatures = kPlanes * kPanelFeatures;
  static constexpr int kColumns = kFeatures;
  static constexpr int kRounds = 2;
  static constexpr int kRoundTokens = kTileTokens / kRounds;
  static constexpr int kPlaneBytes = kRoundTokens * 2 * kPanelFeatures;
  static constexpr int kPartTokens = kRoundTokens / kWritingParts;
};

#ifdef SNUG_HOPPER

template <class Shape>
__device__ inline void finish_round(const float (&sums)[Shape::kColumns / 8][4], uint32_t planes) {
  int lane = static_cast<int>(threadIdx.x & 31);
  int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  uint32_t at = planes + chunk_offset<Shape::kRoundTokens>(16 * warp + (lane & 15), lane >> 4);
#pragma unroll
  for (int i = 0; i < Shape::kColumns / 16; ++i) {
    // chunk_offset of two chunks further, as tiles begin at multiples of 128 bytes
    uint32_t there =
        (at ^ static_cast<uint32_t>((i & 3) << 5)) + static_cast<uint32_t>((i >> 2) * Shape::kPlaneBytes);
    uint32_t results[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* pair = sums[2 * i + j / 2] + 2 * (j & 1);
      results[j] = pack<typename Shape::T>(pair[0], pair[1]);
    }
    store_matrices<4>(there, results);
  }
}

// The rows of B that belong to the block's half of a tile: those of several parts, perhaps, each of which has
// columns of its own in the down product. Beyond B the copy engine fills in zeros.
template <class Shape>
__device__ inline void start_share_rows(const ProductWalk<Shape>& walk, const CUtensorMap& map, uint32_t to,
                                        const TilePlace& at, int depth, uint32_t barrier) {
  constexpr int kHalf = Shape::kFeatures / kPairBlocks;
#pragma unroll
  for (int row = 0; row < kHalf; row += kPartFeatures) {
    int within = walk.rank * kHalf + row;
    int part = 0;
#pragma unroll
    for (int i = 1; i < kMostParts; ++i) {
      part += at.feature + within >= walk.sizes.part_begins[i] ? 1 : 0;
    }
    start_panel_for_pair(to + within * 2 * kStepDepth, map,
                         {depth - part * walk.sizes.part_depth, at.feature + within, 0}, barrier);
  }
}

template <class Shape>
__device__ inline void fetch(const ProductWalk<Shape>& walk, const ProductMaps& maps) {
  if constexpr (Shape::kByColumns) {
    fetch_operands_by_columns(walk, maps);
  } else {
    constexpr int kHalf = Shape::kFeatures / kPairBlocks;
    fetch_operands(
        walk, maps,
        [&](uint32_t to, const TilePlace& at, int depth, uint32_t barrier) {
          start_panel_for_pair(to + walk.rank * kHalf * 2 * kStepDepth, maps.weight,
                               {depth, at.feature + walk.rank * kHalf, 0}, barrier);
        },
        [&](uint32_t to, const TilePlace& at, int depth, uint32_t barrier) {
          start_share_rows(walk, maps.adapter_weight, to, at, depth, barrier);
        });
  }
}

// 16 numbers deep.
template <class Shape>
__device__ inline void multiply_slice(float (&sums)[Shape::kColumns / 8][4], uint64_t tokens,
                                      uint32_t weights, int slice, int add) {
  if constexpr (Shape::kByColumns) {
    product_rows_columns<typename Shape::T>(sums, tokens, describe_columns<kStepDepth>(weights, slice), add);
  } else {
    product_of_rows<typename Shape::T>(sums, tokens, describe_rows<Shape::kColumns>(weights, slice), add);
  }
}

#endif  // SNUG_HOPPER

template <class Shape>
__global__ void SNUG_HOPPER_BOUNDS adapted_product_kernel(const __grid_constant__ ProductSizes sizes,
                                                          const __grid_constant__ ProductMaps maps) {
#ifdef SNUG_HOPPER
  extern __shared__ __align__(1024) unsigned char shared[];
  ProductWalk<Shape> walk{sizes, shared_address(shared)};
  walk.start();
  if (threadIdx.x < kGroupThreads) {
    shrink_registers<Shape::kFetchingRegisters>();
    if (threadIdx.x == 0) {
      fetch(walk, maps);
    } else if (threadIdx.x == 32) {
      fetch_planes(walk, [](const TilePlace&, int, uint32_t barrier) { arrive(barrier); });
    }
    __syncwarp();
  } else {
    grow_registers<Shape::kWorkingRegisters>();
    uint64_t policy = used_once();
    float sums[2][1][Shape::kColumns / 8][4];
    work_on_tiles(
        walk, sums,
        [](auto& tile, uint32_t rows, uint32_t weights, bool first) {
          multiply_halves(tile, rows, first, [&](auto& half, uint64_t tokens, int step, int add) {
            multiply_slice<Shape>(half, tokens, weights, step, add);
          });
        },
        [&](auto& tile, uint32_t rows, uint32_t weights, int step) {
          multiply_share_halves(sizes, tile, rows, step,
                                [&](auto& half, uint64_t tokens, int slice, int add) {
                                  multiply_slice<Shape>(half, tokens, weights, slice, add);
                                });
        },
        [&](auto& tile, int round) { finish_round<Shape>(tile[round][0], walk.plane(0)); },
        [&](const TilePlace& at, int round, int part) {
          int within = part * Shape::kPartTokens;
          int token = at.token + round * Shape::kRoundTokens + within;
          for (int panel = 0; panel < kPlanes; ++panel) {
            start_plane_write(maps.wide_out, {at.feature + panel * kPanelFeatures, 0, token},
                              walk.plane(panel) + within * 2 * kPanelFeatures, policy);
          }
        });
  }
  sync_cluster();  // nobody writes into the other's memory any more
#endif
}

bool make_rows_map(CUtensorMap& map, const Tensor& w, int box_rows) {
  return make_map(map, w,
                  {.columns = w.columns(),
                   .rows = w.rows(),
                   .row_stride = w.columns(),
                   .slice_stride = w.elements(),
                   .box_columns = kStepDepth,
                   .box_rows = box_rows});
}

// Inputs as linear_backward_input has them.
template <class Shape>
bool launch(const std::array<Tensor, 4>& inputs, const Tensor& y, ProductSizes sizes, cudaStream_t stream) {
  using In = LinearBackwardInput;
  const Tensor& w = inputs[In::w];
  const Tensor& adapter = inputs[In::a];
  ProductMaps maps{};
  bool made = make_row_map(maps.x, inputs[In::dy]) && make_row_map(maps.adapter_x, inputs[In::ddown]) &&
              make_plane_map(maps.wide_out, y, 1, {Shape::kPartTokens, kPanelFeatures, true});
  if constexpr (Shape::kByColumns) {
    made = made && make_depth_map(maps.weight, w) && make_depth_map(maps.adapter_weight, adapter);
  } else {
    made = made && make_rows_map(maps.weight, w, Shape::kFeatures / kPairBlocks) &&
           make_rows_map(maps.adapter_weight, adapter, kPartFeatures);
  }
  sizes.pause_ns = sizes.depth * 2 / 5;
  return made && launch_product<Shape>(adapted_product_kernel<Shape>, sizes, maps, stream);
}

// False: parts that are not side by side, or begin where no piece of a tile does.
bool add_parts(const LoraAttributes& adapter, ProductSizes& sizes) {
  if (adapter.parts.size() > kMostParts) {
    return false;
  }
  sizes.scale = adapter.scale;
  sizes.part_depth = static_cast<int>(adapter.rank);
  std::fill(std::begin(sizes.part_begins), std::end(sizes.part_begins), sizes.features);
  int64_t begin = 0;
  for (size_t i = 0; i < adapter.parts.size(); ++i) {
    const LoraPart& part = adapter.parts[i];
    if (part != LoraPart{begin, begin, part.rows} || begin % kPartFeatures != 0) {
      return false;
    }
    sizes.part_begins[i] = static_cast<int>(begin);
    begin += part.rows;
  }
  return true;
}

template <bool kByColumns>
bool launch_for_dtype(const std::array<Tensor, 4>& inputs, const Tensor& y, const ProductSizes& sizes,
                      cudaStream_t stream) {
  return y.dtype == DType::f16 ? launch<AdaptedShape<__half, kByColumns>>(inputs, y, sizes, stream)
                               : launch<AdaptedShape<__nv_bfloat16, kByColumns>>(inputs, y, sizes, stream);
}

}  // namespace

bool hopper_adapted_product(const KernelCall& call, cudaStream_t stream) {
  bool is_gradient = call.op.kind == OpKind::linear_backward_input;
  const auto& attributes = attributes_of<LinearAttributes>(call.op);
  if (attributes.scale != 1.0F || (!is_gradient && call.has_input(LinearInput::bias))) {
    return false;
  }
  size_t adapter = is_gradient ? size_t{LinearBackwardInput::ddown} : size_t{LinearInput::down};
  std::array<Tensor, 4> inputs = {call.inputs[0], call.inputs[1], call.inputs[adapter],
                                  call.inputs[adapter + 1]};
  const Tensor& y = call.outputs[0];
  ProductSizes sizes{.tokens = static_cast<int>(y.rows()),
                     .features = static_cast<int>(y.columns()),
                     .depth = static_cast<int>(inputs[0].columns())};
  if (!fits_product({inputs[0], inputs[1], y}) || !add_adapter_steps(inputs[2], inputs[3], sizes) ||
      sizes.adapter_steps > kMostShareSteps || !is_worth_it(sizes, kPlanes * kPanelFeatures)) {
    return false;
  }
  if (is_gradient) {
    return launch_for_dtype<true>(inputs, y, sizes, stream);
  }
  return add_parts(attributes.adapter, sizes) && launch_for_dtype<false>(inputs, y, sizes, stream);
}

}  // namespace snug::cuda
