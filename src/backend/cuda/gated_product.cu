// gated_linear on Hopper. A tile has 88 or 96 features: as many columns of the gate and those of up beside
// them, so that a thread's sums have both. Planes are gate, up and the activation of 64 tokens; where the
// product is added to what is there, gate and up are fetched first.
#include "backend/cuda/gated_product.h"

#include "backend/cuda/gated_product.cuh"
#include "program/operands.h"

namespace snug::cuda {
namespace {

template <typename Number, typename Gate, bool kAddsTo, int kTileFeatures>
struct ForwardShape : RegisterSplit<24, 240> {
  using T = Number;
  using Function = Gate;
  static constexpr bool kAdds = kAddsTo;
  static constexpr int kFeatures = kTileFeatures;
  static constexpr int kStages = kFeatures > 88 ? 4 : 5;  // as many as there is room for
  static constexpr int kColumns = 2 * kFeatures;
  static constexpr int kRounds = 2;
  static constexpr int kRoundTokens = kTileTokens / kRounds;
  static constexpr int kPlaneRow = 2 * kFeatures;  // bytes; of 88 features, rows do not meet in banks
  static constexpr int kPlaneBytes = kRoundTokens * kPlaneRow;
  static constexpr int kPartTokens = kRoundTokens / kWritingParts;
};

#ifdef SNUG_HOPPER

// Two, or at the end one, of the blocks of 8 features that the warp's 16 tokens have of a round.
template <class Shape, int kMatrices>
__device__ inline void finish_features(const float (&sums)[Shape::kColumns / 8][4], int block, uint32_t at) {
  using T = typename Shape::T;
  constexpr int kHalf = Shape::kFeatures / 8;
  uint32_t gates[4];
  uint32_t ups[4];
  uint32_t results[4];
  if constexpr (Shape::kAdds) {
    load_matrices(gates, at);  // of a single block the other half is read for nothing
    load_matrices(ups, at + Shape::kPlaneBytes);
  }
#pragma unroll
  for (int i = 0; i < kMatrices; ++i) {
    const float* gate_sums = sums[block + i / 2] + 2 * (i & 1);
    const float* up_sums = sums[block + kHalf + i / 2] + 2 * (i & 1);
    float2 gate = {gate_sums[0], gate_sums[1]};
    float2 up = {up_sums[0], up_sums[1]};
    if constexpr (Shape::kAdds) {
      float2 more_gate = unpack<T>(gates[i]);
      float2 more_up = unpack<T>(ups[i]);
      gate = {gate.x + more_gate.x, gate.y + more_gate.y};
      up = {up.x + more_up.x, up.y + more_up.y};
    }
    gates[i] = pack<T>(gate.x, gate.y);
    ups[i] = pack<T>(up.x, up.y);
    gate = unpack<T>(gates[i]);
    up = unpack<T>(ups[i]);
    results[i] = pack<T>(Shape::Function::template at<T>(gate.x).value * up.x,
                         Shape::Function::template at<T>(gate.y).value * up.y);
  }
  store_matrices<kMatrices>(at, gates);
  store_matrices<kMatrices>(at + Shape::kPlaneBytes, ups);
  store_matrices<kMatrices>(at + 2 * Shape::kPlaneBytes, results);
}

template <class Shape>
__device__ inline void finish_round(const float (&sums)[Shape::kColumns / 8][4], uint32_t planes) {
  int lane = static_cast<int>(threadIdx.x & 31);
  int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  uint32_t at =
      planes + static_cast<uint32_t>((16 * warp + (lane & 15)) * Shape::kPlaneRow + (lane >> 4) * 16);
  constexpr int kHalf = Shape::kFeatures / 8;
#pragma unroll
  for (int block = 0; block + 1 < kHalf; block += 2) {
    finish_features<Shape, 4>(sums, block, at + block * 16);
  }
  if constexpr (kHalf % 2 == 1) {
    finish_features<Shape, 2>(sums, kHalf - 1, at + (kHalf - 1) * 16);
  }
}

#endif  // SNUG_HOPPER

template <class Shape>
__global__ void SNUG_HOPPER_BOUNDS gated_product_kernel(const __grid_constant__ GatedSizes sizes,
                                                        const __grid_constant__ GatedMaps maps) {
#ifdef SNUG_HOPPER
  using T = typename Shape::T;
  extern __shared__ __align__(1024) unsigned char shared[];
  GatedWalk<Shape> walk{sizes, shared_address(shared)};
  walk.start();
  if (threadIdx.x < kGroupThreads) {
    shrink_registers<Shape::kFetchingRegisters>();
    if (threadIdx.x == 0) {
      // One block fetches the gate's rows, the other those of up.
      uint32_t half = walk.rank * Shape::kFeatures * 2 * kStepDepth;
      fetch_operands(
          walk, maps,
          [&](uint32_t to, const TilePlace& at, int depth, uint32_t barrier) {
            start_panel_for_pair(to + half, maps.weight, {depth, at.feature, walk.rank}, barrier);
          },
          [&](uint32_t to, const TilePlace& at, int depth, uint32_t barrier) {
            // Beyond a matrix the copy engine fills in zeros, which is what up has of the gate's columns.
            start_panel_for_pair(to + half, maps.adapter_weight,
                                 {depth - walk.rank * sizes.part_depth, at.feature, walk.rank}, barrier);
          });
    } else if (threadIdx.x == 32) {
      uint64_t policy = used_once();
      fetch_planes(walk, [&](const TilePlace& at, int round, uint32_t barrier) {
        if constexpr (Shape::kAdds) {
          expect_bytes(barrier, 2 * Shape::kPlaneBytes);
          for (int i = 0; i < 2 * kWritingParts; ++i) {
            int token = i / 2 * Shape::kPartTokens;
            start_plane_read(walk.plane(i & 1) + token * Shape::kPlaneRow, maps.wide_in,
                             {at.feature, i & 1, at.token + round * Shape::kRoundTokens + token}, barrier,
                             policy);
          }
        } else {
          arrive(barrier);
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
        product_of_rows<T>(half, tokens, describe_rows<Shape::kColumns>(weights, step), add);
      });
    };
    work_on_tiles(
        walk, sums, multiply,
        [&](auto& tile, uint32_t rows, uint32_t weights, int step) {
          multiply_share_halves(
              sizes, tile, rows, step, [&](auto& half, uint64_t tokens, int slice, int add) {
                product_of_rows<T>(half, tokens, describe_rows<Shape::kColumns>(weights, slice), add);
              });
        },
        [&](auto& tile, int round) { finish_round<Shape>(tile[round][0], walk.plane(0)); },
        [&](const TilePlace& at, int round, int part) {
          int within = part * Shape::kPartTokens;
          int token = at.token + round * Shape::kRoundTokens + within;
          uint32_t from = within * Shape::kPlaneRow;
          start_plane_write(maps.wide_out, {at.feature, 0, token}, walk.plane(0) + from, policy);
          start_plane_write(maps.wide_out, {at.feature, 1, token}, walk.plane(1) + from, policy);
          if (sizes.writes_gated) {
            start_plane_write(maps.narrow_out, {at.feature, 0, token}, walk.plane(2) + from, policy);
          }
        });
  }
  sync_cluster();  // nobody writes into the other's memory any more
#endif
}

// What a weight, or an adapter's B, has of a tile: the gate's rows and those of up.
template <class Shape>
bool make_halves_map(CUtensorMap& map, const Tensor& w) {
  return make_map(map, w,
                  {.columns = w.columns(),
                   .rows = w.rows() / 2,
                   .slices = 2,
                   .row_stride = w.columns(),
                   .slice_stride = w.elements() / 2,
                   .box_columns = kStepDepth,
                   .box_rows = Shape::kFeatures});
}

template <class Shape>
bool launch_forward(const KernelCall& call, GatedSizes sizes, cudaStream_t stream) {
  using In = LinearInput;
  const Tensor& wide = call.outputs[0];
  GatedMaps maps{};
  PlaneBox box = {Shape::kPartTokens, Shape::kFeatures, false};
  bool made = make_row_map(maps.x, call.inputs[In::x]) &&
              make_halves_map<Shape>(maps.weight, call.inputs[In::w]) &&
              make_plane_map(maps.wide_out, wide, 2, box) &&
              (!Shape::kAdds || make_plane_map(maps.wide_in, wide, 2, box)) &&
              (!sizes.writes_gated || make_plane_map(maps.narrow_out, call.outputs[1], 1, box)) &&
              (sizes.adapter_steps == 0 || (make_row_map(maps.adapter_x, call.inputs[In::down]) &&
                                            make_halves_map<Shape>(maps.adapter_weight, call.inputs[In::b])));
  // A third of the time that the other group's products take, for all parts of a tile.
  sizes.pause_ns = sizes.depth * 2 / 5;
  return made && launch_gated<Shape>(gated_product_kernel<Shape>, sizes, maps, stream);
}

// One part of all columns, or one for the gate and one for up.
bool add_parts(const LoraAttributes& adapter, GatedSizes& sizes) {
  int64_t rows = adapter.parts.front().rows;
  bool halves = adapter.parts.size() == 2 && adapter.parts[0] == LoraPart{0, 0, rows} &&
                adapter.parts[1] == LoraPart{rows, rows, rows};
  sizes.scale = adapter.scale;
  sizes.part_depth = halves ? static_cast<int>(adapter.rank) : 0;
  return halves || adapter.parts.size() == 1;
}

}  // namespace

bool hopper_gated_product(const KernelCall& call, cudaStream_t stream) {
  using In = LinearInput;
  const Tensor& wide = call.outputs[0];
  GatedSizes sizes{.tokens = static_cast<int>(wide.rows()),
                   .features = static_cast<int>(wide.columns() / 2),
                   .depth = static_cast<int>(call.inputs[In::x].columns()),
                   .writes_gated = call.has_output(1)};
  const LinearAttributes& attributes = attributes_of<GatedLinearAttributes>(call.op).product;
  // Halves of the wide rows, whose vectors are whole only if those of the halves are.
  bool fits =
      fits_gated({call.inputs[In::x], call.inputs[In::w], wide}) &&
      wide.columns() % (2 * kVector<__half>) == 0 && attributes.scale == 1.0F &&
      (!call.has_input(In::down) || (add_adapter_steps(call.inputs[In::down], call.inputs[In::b], sizes) &&
                                     add_parts(attributes.adapter, sizes)));
  // Tiles of 88 leave room for one more step of operands.
  int features = filled_share(sizes, 96) > 1.02 * filled_share(sizes, 88) ? 96 : 88;
  return fits && is_worth_it(sizes, features) && launch_for_gate(call, [&](auto number, auto function) {
           using T = decltype(number);
           using Function = decltype(function);
           if (call.op.accumulates_output(0)) {
             return launch_forward<ForwardShape<T, Function, true, 88>>(call, sizes, stream);
           }
           return features == 88 ? launch_forward<ForwardShape<T, Function, false, 88>>(call, sizes, stream)
                                 : launch_forward<ForwardShape<T, Function, false, 96>>(call, sizes, stream);
         });
}

}  // namespace snug::cuda
