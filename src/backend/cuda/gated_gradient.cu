// gated_linear_backward on Hopper. The sums of a tile are the activation's gradient; planes are gate, up and
// what was there of that gradient before, and become the gradients of gate and up, and the activation made
// again.
#include "backend/cuda/gated_product.cuh"
#include "backend/cuda/gated_product.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

using In = GatedLinearBackwardInput;
using Out = GatedLinearBackwardOutput;

constexpr int kPanelFeatures = 64;
constexpr int kPanelBytes = kTileTokens * 2 * kPanelFeatures;  // of a plane
// Deep products have time for a round of planes after the other, and wide tiles; others have all planes at
// once.
constexpr int kDeep = 2048;

template <typename Number, typename Gate, bool kAddsTo, bool kIsDeep>
struct GradientShape : RegisterSplit<24, 240> {
  using T = Number;
  using Function = Gate;
  static constexpr bool kAdds = kAddsTo;
  static constexpr int kStages = 4;
  static constexpr int kFeatures = kIsDeep ? 192 : 128;
  static constexpr int kColumns = kFeatures;
  static constexpr int kPanels = kIsDeep ? 1 : 2;  // of a plane
  static constexpr int kRounds = kFeatures / (kPanels * kPanelFeatures);
  static constexpr int kPlaneBytes = kPanels * kPanelBytes;
  static constexpr int kPartTokens = kTileTokens / kWritingParts;
};

#ifdef SNUG_HOPPER

// Of each panel of 64 features one block fetches the first half of a step's depth, the other the second.
template <class Shape>
__device__ inline void start_weights(const GatedWalk<Shape>& walk, const CUtensorMap& map, uint32_t to,
                                     const TilePlace& at, int depth, uint32_t barrier) {
  constexpr int kHalfDepth = kStepDepth / kPairBlocks;
#pragma unroll
  for (int panel = 0; panel < Shape::kColumns / kPanelFeatures; ++panel) {
    start_panel_for_pair(to + (panel * kStepDepth + walk.rank * kHalfDepth) * 2 * kPanelFeatures, map,
                         {at.feature + panel * kPanelFeatures, depth + walk.rank * kHalfDepth, 0}, barrier);
  }
}

// 16 tokens and 16 features of a panel.
template <class Shape>
__device__ inline void finish_features(const float (&sums)[Shape::kColumns / 8][4], int block, uint32_t at,
                                       bool makes_again) {
  using T = typename Shape::T;
  uint32_t gates[4];
  uint32_t ups[4];
  uint32_t others[4];
  load_matrices(gates, at);
  load_matrices(ups, at + Shape::kPlaneBytes);
  if constexpr (Shape::kAdds) {
    load_matrices(others, at + 2 * Shape::kPlaneBytes);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* pair = sums[block + i / 2] + 2 * (i & 1);
    float2 gradient = {pair[0], pair[1]};
    if constexpr (Shape::kAdds) {
      float2 more = unpack<T>(others[i]);
      gradient = {gradient.x + more.x, gradient.y + more.y};
    }
    gradient = unpack<T>(pack<T>(gradient.x, gradient.y));  // as if it had been written down
    float2 gate = unpack<T>(gates[i]);
    float2 up = unpack<T>(ups[i]);
    ValueAndSlope f = Shape::Function::template at<T>(gate.x);
    ValueAndSlope g = Shape::Function::template at<T>(gate.y);
    gates[i] = pack<T>(gradient.x * up.x * f.slope, gradient.y * up.y * g.slope);
    ups[i] = pack<T>(gradient.x * f.value, gradient.y * g.value);
    others[i] = pack<T>(f.value * up.x, g.value * up.y);
  }
  store_matrices<4>(at, gates);
  store_matrices<4>(at + Shape::kPlaneBytes, ups);
  if (makes_again) {
    store_matrices<4>(at + 2 * Shape::kPlaneBytes, others);
  }
}

template <class Shape, typename Sums>
__device__ inline void finish_round(const Sums& sums, int round, uint32_t planes, bool makes_again) {
  int lane = static_cast<int>(threadIdx.x & 31);
  int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  uint32_t at = planes + chunk_offset<kTileTokens>(16 * warp + (lane & 15), lane >> 4);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < Shape::kPanels * 4; ++i) {
      // chunk_offset of two chunks further, as tiles begin at multiples of 128 bytes
      uint32_t there = (at ^ static_cast<uint32_t>((i & 3) << 5)) +
                       static_cast<uint32_t>((i >> 2) * kPanelBytes + half * 64 * 128);
      finish_features<Shape>(sums[half][0], 8 * Shape::kPanels * round + 2 * i, there, makes_again);
    }
  }
}

#endif  // SNUG_HOPPER

template <class Shape>
__global__ void SNUG_HOPPER_BOUNDS gated_gradient_kernel(const __grid_constant__ GatedSizes sizes,
                                                         const __grid_constant__ GatedMaps maps) {
#ifdef SNUG_HOPPER
  using T = typename Shape::T;
  extern __shared__ __align__(1024) unsigned char shared[];
  GatedWalk<Shape> walk{sizes, shared_address(shared)};
  walk.start();
  // A part of a plane's panel: the feature and token where it lies, and its offset within the plane.
  auto part_of = [](const TilePlace& at, int round, int part, int panel) {
    return TilePlace{at.token + part * Shape::kPartTokens,
                     at.feature + (round * Shape::kPanels + panel) * kPanelFeatures};
  };
  auto offset_of = [](int part, int panel) {
    return static_cast<uint32_t>(panel * kPanelBytes + part * Shape::kPartTokens * 2 * kPanelFeatures);
  };
  if (threadIdx.x < kGroupThreads) {
    shrink_registers<Shape::kFetchingRegisters>();
    if (threadIdx.x == 0) {
      fetch_operands(
          walk, maps,
          [&](uint32_t to, const TilePlace& at, int depth, uint32_t barrier) {
            start_weights(walk, maps.weight, to, at, depth, barrier);
          },
          [&](uint32_t to, const TilePlace& at, int depth, uint32_t barrier) {
            start_weights(walk, maps.adapter_weight, to, at, depth, barrier);
          });
    } else if (threadIdx.x == 32) {
      uint64_t policy = used_once();
      fetch_planes(walk, [&](const TilePlace& at, int round, uint32_t barrier) {
        expect_bytes(barrier, (Shape::kAdds ? 3 : 2) * Shape::kPlaneBytes);
        for (int i = 0; i < kWritingParts * Shape::kPanels; ++i) {
          TilePlace place = part_of(at, round, i / Shape::kPanels, i % Shape::kPanels);
          uint32_t offset = offset_of(i / Shape::kPanels, i % Shape::kPanels);
          start_plane_read(walk.plane(0) + offset, maps.wide_in, {place.feature, 0, place.token}, barrier,
                           policy);
          start_plane_read(walk.plane(1) + offset, maps.wide_in, {place.feature, 1, place.token}, barrier,
                           policy);
          if constexpr (Shape::kAdds) {
            start_plane_read(walk.plane(2) + offset, maps.narrow_in, {place.feature, 0, place.token}, barrier,
                             policy);
          }
        }
      });
    }
    __syncwarp();
  } else {
    grow_registers<Shape::kWorkingRegisters>();
    uint64_t policy = used_once();
    float sums[2][1][Shape::kColumns / 8][4];
    auto multiply = [](auto& tile, uint32_t rows, uint32_t weights, bool first) {
      multiply_halves(tile, rows, first, [&](auto& half, uint64_t tokens, int step, int add) {
        product_rows_columns<T>(half, tokens, describe_columns<kStepDepth>(weights, step), add);
      });
    };
    work_on_tiles(
        walk, sums, multiply,
        [&](auto& tile, uint32_t rows, uint32_t weights, int step) {
          multiply_share_halves(
              sizes, tile, rows, step, [&](auto& half, uint64_t tokens, int slice, int add) {
                product_rows_columns<T>(half, tokens, describe_columns<kStepDepth>(weights, slice), add);
              });
        },
        [&](auto& tile, int round) { finish_round<Shape>(tile, round, walk.plane(0), sizes.writes_gated); },
        [&](const TilePlace& at, int round, int part) {
          for (int panel = 0; panel < Shape::kPanels; ++panel) {
            TilePlace place = part_of(at, round, part, panel);
            uint32_t offset = offset_of(part, panel);
            start_plane_write(maps.wide_out, {place.feature, 0, place.token}, walk.plane(0) + offset, policy);
            start_plane_write(maps.wide_out, {place.feature, 1, place.token}, walk.plane(1) + offset, policy);
            if (sizes.writes_gated) {
              start_plane_write(maps.narrow_out, {place.feature, 0, place.token}, walk.plane(2) + offset,
                                policy);
            }
          }
        });
  }
  sync_cluster();  // nobody writes into the other's memory any more
#endif
}

// What a block fetches of the weight, or of an adapter's A.
bool make_depth_map(CUtensorMap& map, const Tensor& w) {
  return make_map(map, w,
                  {.columns = w.columns(),
                   .rows = w.rows(),
                   .row_stride = w.columns(),
                   .slice_stride = w.elements(),
                   .box_columns = kPanelFeatures,
                   .box_rows = kStepDepth / kPairBlocks});
}

template <class Shape>
bool launch_gradient(const KernelCall& call, GatedSizes sizes, cudaStream_t stream) {
  GatedMaps maps{};
  PlaneBox box = {Shape::kPartTokens, kPanelFeatures, true};
  bool made = make_row_map(maps.x, call.inputs[In::dy]) && make_depth_map(maps.weight, call.inputs[In::w]) &&
              make_plane_map(maps.wide_in, call.inputs[In::x], 2, box) &&
              make_plane_map(maps.wide_out, call.outputs[Out::dx], 2, box) &&
              (!Shape::kAdds || make_plane_map(maps.narrow_in, call.inputs[In::dgated], 1, box)) &&
              (!sizes.writes_gated || make_plane_map(maps.narrow_out, call.outputs[Out::gated], 1, box)) &&
              (sizes.adapter_steps == 0 || (make_row_map(maps.adapter_x, call.inputs[In::ddown]) &&
                                            make_depth_map(maps.adapter_weight, call.inputs[In::a])));
  // A few microseconds for a deep tile; where all planes are one round, there is no time to lose.
  sizes.pause_ns = Shape::kRounds > 1 ? sizes.depth / 12 : 0;
  return made && launch_gated<Shape>(gated_gradient_kernel<Shape>, sizes, maps, stream);
}

}  // namespace

bool hopper_gated_gradient(const KernelCall& call, cudaStream_t stream) {
  const Tensor& w = call.inputs[In::w];
  GatedSizes sizes{.tokens = static_cast<int>(call.inputs[In::dy].rows()),
                   .features = static_cast<int>(w.columns()),
                   .depth = static_cast<int>(w.rows()),
                   .writes_gated = call.has_output(Out::gated)};
  bool is_deep = w.rows() >= kDeep;
  bool fits =
      fits_gated({call.inputs[In::x], w, call.inputs[In::dy]}) &&
      attributes_of<GatedLinearAttributes>(call.op).product.scale == 1.0F &&
      is_worth_it(sizes, is_deep ? 192 : 128) &&
      (!call.has_input(In::ddown) || add_adapter_steps(call.inputs[In::ddown], call.inputs[In::a], sizes));
  return fits && launch_for_gate(call, [&](auto number, auto function) {
           using T = decltype(number);
           using Function = decltype(function);
           auto launch = [&](auto adds) {
             constexpr bool kAdds = decltype(adds)::value;
             return is_deep ? launch_gradient<GradientShape<T, Function, kAdds, true>>(call, sizes, stream)
                            : launch_gradient<GradientShape<T, Function, kAdds, false>>(call, sizes, stream);
           };
           return call.has_input(In::dgated) ? launch(std::true_type{}) : launch(std::false_type{});
         });
}

}  // namespace snug::cuda
