// LoRA's up product of small ranks, and both of its gradients in one pass over dy, with the tiles of
// attention's portable kernels: what is multiplied is too little to be worth Hopper's own.
#include "backend/cuda/lora_thin.h"

#include <algorithm>

#include "backend/cuda/attention/tiles.cuh"
#include "backend/cuda/check.h"
#include "backend/cuda/vectors.cuh"
#include "backend/cuda_plan/products.h"
#include "backend/cuda_plan/scratch.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

constexpr int kMostParts = 4;
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kColumns = 64 * kWarps;  // of y that a block has: 64 a warp, a panel of the tile
constexpr int kWarpSteps = 64 / 16;    // of a warp's columns, 16 deep
constexpr int kAddingThreads = 256;

struct ThinPart {
  int64_t y_column = 0;
  int64_t b_row = 0;
  int rows = 0;         // of B: columns of y
  int first_block = 0;  // of all parts' blocks of columns, one after the other
};

struct ThinArguments {
  void* y = nullptr;  // or dy
  const void* down = nullptr;
  const void* b = nullptr;
  int64_t y_stride = 0;
  int64_t down_stride = 0;
  int tokens = 0;
  int rank = 0;
  int b_rows = 0;
  float scale = 1.0F;
  int parts = 0;
  ThinPart part[kMostParts + 1];  // one more, which begins where the last one ends
  // Of the gradient.
  int splits = 1;               // blocks that share the tokens of a block of columns
  float* ddown_sums = nullptr;  // [blocks of columns, tokens, padded rank]
  float* db_sums = nullptr;     // [splits, rows of B, padded rank]

  __device__ int part_of(int block) const {
    int found = 0;
    while (found + 1 < parts && block >= part[found + 1].first_block) {
      ++found;
    }
    return found;
  }
};

// The columns of y, and rows of B, that a block has.
struct ColumnBlock {
  int part = 0;
  int64_t y_column = 0;
  int64_t b_row = 0;
  int count = 0;

  __device__ ColumnBlock(const ThinArguments& a, int block) : part(a.part_of(block)) {
    const ThinPart& own = a.part[part];
    int first = (block - own.first_block) * kColumns;
    y_column = own.y_column + first;
    b_row = own.b_row + first;
    count = min(kColumns, own.rows - first);
  }
};

constexpr int kPanelRowBytes = 128;

// A block writes y of 128 tokens, 16 a warp.
constexpr int kUpTokens = 16 * kWarps;
constexpr int kUpColumns = 128;  // whose sums a warp holds at a time
constexpr int kUpBytes = (kUpTokens + kColumns) * kPanelRowBytes;

template <typename T, int kRank>
__global__ void __launch_bounds__(kThreads, 2) thin_up_kernel(ThinArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  ColumnBlock columns(a, static_cast<int>(blockIdx.x));
  int thread = static_cast<int>(threadIdx.x);
  int first_token = static_cast<int>(blockIdx.y) * kUpTokens;
  uint32_t down_tile = shared_address(shared);
  uint32_t b_tile = down_tile + kUpTokens * kPanelRowBytes;
  load_tile<kUpTokens, kRank, kThreads>(
      down_tile,
      rows_of<T>(a.down, a.down_stride, first_token, columns.part * a.rank, a.tokens - first_token, a.rank),
      thread);
  load_tile<kColumns, kRank, kThreads>(
      b_tile, rows_of<T>(a.b, a.rank, columns.b_row, 0, columns.count, a.rank), thread);
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  int row = thread / 32 * 16;
  T* y = static_cast<T*>(a.y) + (first_token + row) * a.y_stride + columns.y_column;
#pragma unroll 1
  for (int column = 0; column < columns.count; column += kUpColumns) {
    float sums[1][kUpColumns / 8][4];
    multiply_rows<T, kUpTokens, kRank, 1, kUpColumns / 8, kColumns>(sums, down_tile, row, b_tile, column);
    store_rows<T, kUpColumns>(sums[0], y + column, a.y_stride, a.tokens - first_token - row,
                              columns.count - column, {a.scale, a.scale});
  }
}

// Shared memory of a gradient's block: tiles of dy and of the down product, two on the way, and what the
// warps have to add up of the down product's gradient. B's rows lie where the tiles will.
template <int kRankPadded>
struct GradientShape {
  static constexpr int kRank = kRankPadded;
  static constexpr int kTokens = 32;
  static constexpr int kStages = 2;
  static constexpr int kTileBytes = kTokens * kColumns * 2;
  static constexpr int kStageBytes = kTileBytes + kTokens * kPanelRowBytes;
  static constexpr int kSumsAt = kStages * kStageBytes;
  static constexpr int kSumStride = kRank + 8;  // floats: rows that meet in a bank are further apart
  static constexpr int kWarpSums = kTokens * kSumStride;
  static constexpr int kBytes = kSumsAt + kWarps * kWarpSums * 4;
  static constexpr int kDownThreads = kTokens * kRank / 8;
  static_assert(kColumns * kPanelRowBytes <= kSumsAt);
};

// What a warp's columns add to the gradient of the down product's tile, to where all warps' shares are added
// up.
template <class Shape>
__device__ inline void store_share(const float (&ddown)[Shape::kTokens / 16][Shape::kRank / 8][4],
                                   float* shares) {
  constexpr int kBlocks = Shape::kRank / 8;
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  float* own = shares + warp * Shape::kWarpSums + lane / 4 * Shape::kSumStride + 2 * (lane % 4);
#pragma unroll
  for (int i = 0; i < 2 * (Shape::kTokens / 16) * kBlocks; ++i) {
    int half = i % 2;
    int n = i / 2 % kBlocks;
    int r = i / (2 * kBlocks);
    *reinterpret_cast<float2*>(own + (16 * r + 8 * half) * Shape::kSumStride + 8 * n) =
        make_float2(ddown[r][n][2 * half], ddown[r][n][2 * half + 1]);
  }
}

template <class Shape>
__device__ inline void add_up_shares(const ThinArguments& a, const float* shares, int tile) {
  constexpr int kRank = Shape::kRank;
#pragma unroll
  for (int i = 0; i < Shape::kTokens * kRank / (2 * kThreads); ++i) {
    int element = 2 * (i * kThreads + static_cast<int>(threadIdx.x));
    int row = element / kRank;
    const float* from = shares + row * Shape::kSumStride + element % kRank;
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      float2 part = *reinterpret_cast<const float2*>(from + w * Shape::kWarpSums);
      sum.x += part.x;
      sum.y += part.y;
    }
    int64_t token = tile * Shape::kTokens + row;
    if (token < a.tokens) {
      *reinterpret_cast<float2*>(
          a.ddown_sums + (static_cast<int64_t>(blockIdx.x) * a.tokens + token) * kRank + element % kRank) =
          sum;
    }
  }
}

// A warp's rows of dB, of this block's share of the tokens.
template <class Shape>
__device__ inline void store_db(const ThinArguments& a, const float (&db)[kWarpSteps][Shape::kRank / 8][4],
                                int64_t first_row, int rows) {
  constexpr int kRank = Shape::kRank;
  constexpr int kBlocks = kRank / 8;
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  float* to = a.db_sums + (static_cast<int64_t>(blockIdx.y) * a.b_rows + first_row) * kRank + 2 * (lane % 4);
#pragma unroll
  for (int i = 0; i < 2 * kWarpSteps * kBlocks; ++i) {
    int half = i % 2;
    int n = i / 2 % kBlocks;
    int step = i / (2 * kBlocks);
    int row = warp * 64 + 16 * step + 8 * half + lane / 4;
    if (row < rows) {
      *reinterpret_cast<float2*>(to + row * kRank + 8 * n) =
          make_float2(db[step][n][2 * half], db[step][n][2 * half + 1]);
    }
  }
}

// A block's columns, over its share of the tokens. A warp has 64 of them: dB of these stays in its registers,
// and of each tile of tokens it makes what its columns add to the down product's gradient.
template <typename T, class Shape>
__global__ void __launch_bounds__(kThreads, 2) thin_gradient_kernel(ThinArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr int kRank = Shape::kRank;
  constexpr int kTokens = Shape::kTokens;
  constexpr int kBlocks = kRank / 8;
  ColumnBlock columns(a, static_cast<int>(blockIdx.x));
  int thread = static_cast<int>(threadIdx.x);
  int warp = thread / 32;
  uint32_t memory = shared_address(shared);
  auto* sums = reinterpret_cast<float*>(shared + Shape::kSumsAt);

  load_tile<kColumns, kRank, kThreads>(
      memory, rows_of<T>(a.b, a.rank, columns.b_row, 0, columns.count, a.rank), thread);
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  uint32_t b[kWarpSteps][kBlocks / 2][4];
  Fragments b_rows = Fragments::along_rows(memory, warp * 64);
#pragma unroll
  for (int step = 0; step < kWarpSteps; ++step) {
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      load_matrices_transposed(b[step][n / 2], b_rows.at<kColumns>(16 * step, n));
    }
  }
  __syncthreads();

  int tiles = (a.tokens + kTokens - 1) / kTokens;
  int first = tiles * static_cast<int>(blockIdx.y) / a.splits;
  int last = tiles * static_cast<int>(blockIdx.y + 1) / a.splits;
  auto stage_of = [&](int tile) { return memory + (tile - first) % Shape::kStages * Shape::kStageBytes; };
  auto fetch = [&](int tile) {
    int token = tile * kTokens;
    load_tile<kTokens, kColumns, kThreads>(
        stage_of(tile), rows_of<T>(a.y, a.y_stride, token, columns.y_column, a.tokens - token, columns.count),
        thread);
    if (thread < Shape::kDownThreads) {
      load_tile<kTokens, kRank, Shape::kDownThreads>(
          stage_of(tile) + Shape::kTileBytes,
          rows_of<T>(a.down, a.down_stride, token, columns.part * a.rank, a.tokens - token, a.rank), thread);
    }
    commit_copies();
  };

  float db[kWarpSteps][kBlocks][4];
  clear<kWarpSteps, kBlocks>(db);
  if (first < last) {
    fetch(first);
  }
  for (int tile = first; tile < last; ++tile) {
    if (tile + 1 < last) {
      fetch(tile + 1);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads();
    add_product_of_columns<T, kTokens, kWarpSteps, kBlocks>(db, stage_of(tile), warp * 64,
                                                            stage_of(tile) + Shape::kTileBytes, 0);
    float ddown[kTokens / 16][kBlocks][4];
    clear<kTokens / 16, kBlocks>(ddown);
    Fragments dy = Fragments::along_rows(stage_of(tile) + warp * kTokens * kPanelRowBytes, 0);
#pragma unroll
    for (int step = 0; step < kWarpSteps; ++step) {
#pragma unroll
      for (int r = 0; r < kTokens / 16; ++r) {
        uint32_t left[4];
        load_matrices(left, dy.at<kTokens>(16 * r, 2 * step));
#pragma unroll
        for (int n = 0; n < kBlocks; n += 2) {
          multiply_add<T>(ddown[r][n], left, b[step][n / 2][0], b[step][n / 2][1]);
          multiply_add<T>(ddown[r][n + 1], left, b[step][n / 2][2], b[step][n / 2][3]);
        }
      }
    }
    store_share<Shape>(ddown, sums);
    __syncthreads();
    add_up_shares<Shape>(a, sums, tile);
  }
  store_db<Shape>(a, db, columns.b_row, columns.count);
}

struct ThinGradients {
  void* ddown = nullptr;
  float* db = nullptr;
  bool add_ddown = false;
  bool add_db = false;
};

// The sum of `count` vectors of four, `stride` floats apart, in order.
__device__ inline void add_up(float (&sum)[4], const float* parts, int count, int64_t stride) {
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    Vector<float, 4> part = load<4>(parts + i * stride);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      sum[j] += part.at[j];
    }
  }
}

// Adds up what the blocks have written; four neighbouring numbers a thread.
template <typename T, int kRank>
__global__ void add_thin_sums(ThinArguments a, ThinGradients to) {
  int64_t quad = static_cast<int64_t>(blockIdx.x) * kAddingThreads + threadIdx.x;
  int quads = a.rank / 4;
  int64_t row = quad / quads;
  int column = static_cast<int>(quad % quads) * 4;
  float sum[4] = {};
  if (row < a.b_rows) {
    add_up(sum, a.db_sums + row * kRank + column, a.splits, static_cast<int64_t>(a.b_rows) * kRank);
  } else {
    int64_t place = row - a.b_rows;
    int64_t token = place / a.parts;
    int part = static_cast<int>(place % a.parts);
    if (token >= a.tokens) {
      return;
    }
    int64_t stride = static_cast<int64_t>(a.tokens) * kRank;
    int block = a.part[part].first_block;
    add_up(sum, a.ddown_sums + block * stride + token * kRank + column, a.part[part + 1].first_block - block,
           stride);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    sum[j] *= a.scale;
  }
  if (row < a.b_rows) {
    write<4>(to.db + row * a.rank + column, sum, to.add_db);
  } else {
    int64_t place = row - a.b_rows;
    write<4>(static_cast<T*>(to.ddown) + place / a.parts * a.down_stride + place % a.parts * a.rank + column,
             sum, to.add_ddown);
  }
}

bool has_room(int shared_bytes) {
  int device = 0;
  int limit = 0;
  check(cudaGetDevice(&device), "asking for the card");
  check(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "asking for shared memory");
  return shared_bytes <= limit;
}

// False: these products are not for the kernels here.
bool make_arguments(const LoraAttributes& attributes, const Tensor& y, const Tensor& down, const Tensor& b,
                    ThinArguments& a) {
  if (y.dtype == DType::f32 || b.dtype != y.dtype || attributes.rank > kSmallRank ||
      attributes.rank % 8 != 0 || attributes.parts.size() > kMostParts || !has_whole_vectors(y) ||
      !has_whole_vectors(down) || !has_whole_vectors(b)) {
    return false;
  }
  a.y = y.data;
  a.down = down.data;
  a.b = b.data;
  a.y_stride = y.columns();
  a.down_stride = down.columns();
  a.tokens = static_cast<int>(y.rows());
  a.rank = static_cast<int>(attributes.rank);
  a.b_rows = static_cast<int>(b.rows());
  a.scale = attributes.scale;
  for (const LoraPart& part : attributes.parts) {
    if (part.y_column % 8 != 0 || part.rows % 8 != 0) {
      return false;
    }
    ThinPart& own = a.part[a.parts++];
    own.y_column = part.y_column;
    own.b_row = part.b_row;
    own.rows = static_cast<int>(part.rows);
    a.part[a.parts].first_block = own.first_block + static_cast<int>(blocks_for(part.rows, kColumns));
  }
  return true;
}

// Calls body(TypeTag<T>, Width<padded rank>).
template <typename Body>
bool with_rank(DType dtype, int rank, const Body& body) {
  auto typed = [&](auto type) { return rank <= 16 ? body(type, Width<16>{}) : body(type, Width<32>{}); };
  return dtype == DType::f16 ? typed(TypeTag<__half>{}) : typed(TypeTag<__nv_bfloat16>{});
}

template <typename Kernel>
void allow_shared(Kernel kernel, int bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "asking for shared memory");
}

// As many tokens as the sums of both gradients leave room for in a product's scratch memory are done at a
// time.
template <typename T, int kRank>
bool run_gradient(ThinArguments a, ThinGradients to, const KernelCall& call, cudaStream_t stream) {
  using Shape = GradientShape<kRank>;
  constexpr int kMostBlocks = 264;  // two for each of an H200's processors
  if (!has_room(Shape::kBytes)) {
    return false;
  }
  int blocks = a.part[a.parts].first_block;
  int64_t tokens = a.tokens;
  a.splits = std::clamp(kMostBlocks / blocks, 1, static_cast<int>(blocks_for(tokens, Shape::kTokens)));
  int64_t db_bytes = padded_bytes_of<float>(int64_t{a.splits} * a.b_rows * kRank);
  int64_t token_bytes = int64_t{4} * blocks * kRank;
  int64_t at_once = (kBlasWorkspaceBytes - db_bytes - 256) / token_bytes / Shape::kTokens * Shape::kTokens;
  if (at_once < std::min<int64_t>(tokens, 16 * Shape::kTokens)) {
    return false;
  }
  // As many times as that takes, of one size.
  int64_t times = (tokens + at_once - 1) / at_once;
  at_once = static_cast<int64_t>(blocks_for((tokens + times - 1) / times, Shape::kTokens)) * Shape::kTokens;
  Scratch scratch(call.workspace);
  a.db_sums = scratch.take<float>(int64_t{a.splits} * a.b_rows * kRank);
  a.ddown_sums = scratch.take<float>(std::min(at_once, tokens) * blocks * kRank);
  auto kernel = thin_gradient_kernel<T, Shape>;
  allow_shared(kernel, Shape::kBytes);
  for (int64_t first = 0; first < tokens; first += at_once) {
    ThinArguments slab = a;
    slab.tokens = static_cast<int>(std::min(at_once, tokens - first));
    slab.y = static_cast<T*>(a.y) + first * a.y_stride;
    slab.down = static_cast<const T*>(a.down) + first * a.down_stride;
    ThinGradients slab_to = to;
    slab_to.ddown = static_cast<T*>(to.ddown) + first * a.down_stride;
    slab_to.add_db = to.add_db || first > 0;
    kernel<<<dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(a.splits)), kThreads, Shape::kBytes,
             stream>>>(slab);
    int64_t quads = (slab.b_rows + int64_t{slab.tokens} * slab.parts) * (slab.rank / 4);
    add_thin_sums<T, kRank><<<blocks_for(quads, kAddingThreads), kAddingThreads, 0, stream>>>(slab, slab_to);
  }
  check_launch("the gradient of an adapter");
  return true;
}

}  // namespace

bool thin_lora_up(const KernelCall& call, cudaStream_t stream) {
  const Tensor& y = call.outputs[0];
  ThinArguments a;
  if (call.op.accumulates_output(0) ||
      !make_arguments(attributes_of<LoraAttributes>(call.op), y, call.inputs[0], call.inputs[1], a) ||
      !has_room(kUpBytes)) {
    return false;
  }
  if (a.tokens == 0) {
    return true;
  }
  return with_rank(y.dtype, a.rank, [&](auto type, auto rank) {
    auto kernel = thin_up_kernel<typename decltype(type)::type, decltype(rank)::value>;
    allow_shared(kernel, kUpBytes);
    kernel<<<dim3(static_cast<unsigned>(a.part[a.parts].first_block), blocks_for(a.tokens, kUpTokens)),
             kThreads, kUpBytes, stream>>>(a);
    check_launch("an adapter");
    return true;
  });
}

bool thin_lora_gradient(const KernelCall& call, cudaStream_t stream) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  const Tensor& dy = call.inputs[In::dy];
  ThinArguments a;
  if (!call.has_output(Out::ddown) || !call.has_output(Out::db) || dy.rows() == 0 ||
      !make_arguments(attributes_of<LoraAttributes>(call.op), dy, call.inputs[In::down], call.inputs[In::b],
                      a)) {
    return false;
  }
  ThinGradients to{.ddown = call.outputs[Out::ddown].data,
                   .db = call.outputs[Out::db].as<float>(),
                   .add_ddown = call.op.accumulates_output(Out::ddown),
                   .add_db = call.op.accumulates_output(Out::db)};
  return with_rank(dy.dtype, a.rank, [&](auto type, auto rank) {
    return run_gradient<typename decltype(type)::type, decltype(rank)::value>(a, to, call, stream);
  });
}

}  // namespace snug::cuda
