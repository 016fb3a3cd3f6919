// cuBLASLt thinks in columns: a row-major C = A B is its C^T = B^T A^T, so the operands change places.
#include "backend/cuda/blas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/cuda_plan/tilings.h"
#include "backend/cuda_plan/token_sizes.h"
#include "base/check.h"
#include "base/error.h"

namespace snug::cuda {
namespace {

// A model's products at all sizes of batches (cuda_plan/token_sizes.h) are fewer; forgetting all of them
// bounds the memory whatever comes.
constexpr size_t kMostChoices = 32768;

// The product whose algorithm this one has: that of the largest batch of its size class. Tokens are the rows
// of A in every product of a model, and never its columns, so that no address or stride depends on them.
Gemm of_size_class(Gemm gemm) {
  int64_t tokens = size_class_of(gemm.a.rows);
  (gemm.transpose_a ? gemm.b : gemm.c).rows = tokens;
  gemm.a.rows = tokens;
  return gemm;
}

cudaDataType_t type_of(DType dtype, Float8 kind) {
  switch (dtype) {
    case DType::u8:
      return kind == Float8::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      SNUG_CHECK(false, "products are of fp32, bf16, fp16 or 8-bit numbers");
      return CUDA_R_32F;
  }
}

// The largest power of two up to 256 that the address is a multiple of.
uint32_t alignment_of(const void* address) {
  uint32_t alignment = 256;
  while (reinterpret_cast<uintptr_t>(address) % alignment != 0) {
    alignment /= 2;
  }
  return alignment;
}

template <typename T>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof value), "describing a product");
}

template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "describing a product");
}

// The units keep sums of 8-bit numbers to few bits, and what is cut off grows with the length. Up to this one
// it is less than bf16's rounding of the result; longer ones are added up in fp32 now and then
// (docs/decisions/0037-fp8.md).
constexpr int64_t kLongestUnitsSum = 8192;

bool may_be_left_to_units(const Gemm& gemm) {
  return gemm.a.dtype == DType::u8 && gemm.a.columns <= kLongestUnitsSum;
}

template <typename T>
T attribute_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  size_t written = 0;
  cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : T{};
}

struct Shape {
  uint32_t id;
  int64_t m;
  int64_t n;
};

// What Hopper's kernels for products that are not thin are made of.
constexpr auto kTiles = std::to_array<Shape>({
    {CUBLASLT_MATMUL_TILE_64x64, 64, 64},     {CUBLASLT_MATMUL_TILE_64x96, 64, 96},
    {CUBLASLT_MATMUL_TILE_64x128, 64, 128},   {CUBLASLT_MATMUL_TILE_64x192, 64, 192},
    {CUBLASLT_MATMUL_TILE_64x256, 64, 256},   {CUBLASLT_MATMUL_TILE_64x320, 64, 320},
    {CUBLASLT_MATMUL_TILE_64x384, 64, 384},   {CUBLASLT_MATMUL_TILE_64x512, 64, 512},
    {CUBLASLT_MATMUL_TILE_80x128, 80, 128},   {CUBLASLT_MATMUL_TILE_96x64, 96, 64},
    {CUBLASLT_MATMUL_TILE_96x128, 96, 128},   {CUBLASLT_MATMUL_TILE_112x128, 112, 128},
    {CUBLASLT_MATMUL_TILE_128x64, 128, 64},   {CUBLASLT_MATMUL_TILE_128x80, 128, 80},
    {CUBLASLT_MATMUL_TILE_128x96, 128, 96},   {CUBLASLT_MATMUL_TILE_128x112, 128, 112},
    {CUBLASLT_MATMUL_TILE_128x128, 128, 128}, {CUBLASLT_MATMUL_TILE_128x144, 128, 144},
    {CUBLASLT_MATMUL_TILE_128x160, 128, 160}, {CUBLASLT_MATMUL_TILE_128x168, 128, 168},
    {CUBLASLT_MATMUL_TILE_128x176, 128, 176}, {CUBLASLT_MATMUL_TILE_128x192, 128, 192},
    {CUBLASLT_MATMUL_TILE_128x256, 128, 256}, {CUBLASLT_MATMUL_TILE_128x320, 128, 320},
    {CUBLASLT_MATMUL_TILE_144x128, 144, 128}, {CUBLASLT_MATMUL_TILE_160x128, 160, 128},
    {CUBLASLT_MATMUL_TILE_168x128, 168, 128}, {CUBLASLT_MATMUL_TILE_176x128, 176, 128},
    {CUBLASLT_MATMUL_TILE_192x64, 192, 64},   {CUBLASLT_MATMUL_TILE_192x128, 192, 128},
    {CUBLASLT_MATMUL_TILE_192x192, 192, 192}, {CUBLASLT_MATMUL_TILE_256x64, 256, 64},
    {CUBLASLT_MATMUL_TILE_256x96, 256, 96},   {CUBLASLT_MATMUL_TILE_256x128, 256, 128},
    {CUBLASLT_MATMUL_TILE_320x64, 320, 64},   {CUBLASLT_MATMUL_TILE_320x128, 320, 128},
    {CUBLASLT_MATMUL_TILE_384x64, 384, 64},   {CUBLASLT_MATMUL_TILE_448x64, 448, 64},
    {CUBLASLT_MATMUL_TILE_512x64, 512, 64},
});
constexpr auto kClusters = std::to_array<Shape>({
    {CUBLASLT_CLUSTER_SHAPE_2x1x1, 2, 1},
    {CUBLASLT_CLUSTER_SHAPE_1x2x1, 1, 2},
    {CUBLASLT_CLUSTER_SHAPE_2x2x1, 2, 2},
    {CUBLASLT_CLUSTER_SHAPE_4x1x1, 4, 1},
    {CUBLASLT_CLUSTER_SHAPE_1x4x1, 1, 4},
    {CUBLASLT_CLUSTER_SHAPE_4x2x1, 4, 2},
    {CUBLASLT_CLUSTER_SHAPE_2x4x1, 2, 4},
});

Shape shape_of(std::span<const Shape> known, uint32_t id, const Shape& otherwise) {
  auto shape = std::ranges::find(known, id, &Shape::id);
  return shape != known.end() ? *shape : otherwise;
}

Tiling tiling_of(const cublasLtMatmulAlgo_t& algorithm) {
  Shape tile = shape_of(kTiles, attribute_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID), {});
  Shape cluster = shape_of(
      kClusters, attribute_of<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID), {0, 1, 1});
  return {tile.m, tile.n, cluster.m, cluster.n,
          std::max(1, attribute_of<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM))};
}

// A row-major matrix is its transpose by columns.
cublasLtMatrixLayoutOpaque_t layout_of(const Matrix& matrix, Float8 kind = Float8::e4m3) {
  cublasLtMatrixLayoutOpaque_t layout;
  check(cublasLtMatrixLayoutInit(&layout, type_of(matrix.dtype, kind), static_cast<uint64_t>(matrix.columns),
                                 static_cast<uint64_t>(matrix.rows), matrix.stride),
        "describing a matrix");
  return layout;
}

}  // namespace

// Its best one comes first.
struct Blas::Guesses {
  static constexpr int kMost = 8;
  std::array<cublasLtMatmulHeuristicResult_t, kMost> found{};
  int count = 0;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
};

struct Blas::Descriptors {
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t a;  // ours, which is their B
  cublasLtMatrixLayoutOpaque_t b;
  cublasLtMatrixLayoutOpaque_t c;

  Descriptors(const Gemm& gemm, bool tf32, bool left_to_units)
      : a(layout_of(gemm.a, gemm.a_kind)), b(layout_of(gemm.b)), c(layout_of(gemm.c)) {
    bool fast = tf32 && gemm.a.dtype == DType::f32;
    check(cublasLtMatmulDescInit(&product, fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
          "describing a product");
    set(&product, CUBLASLT_MATMUL_DESC_TRANSA, gemm.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(&product, CUBLASLT_MATMUL_DESC_TRANSB, gemm.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (gemm.bias != nullptr) {
      set(&product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(&product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, gemm.bias);
    }
    if (gemm.a_scales != nullptr) {
      set(&product, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      set(&product, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      set(&product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, gemm.b_scales);
      set(&product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, gemm.a_scales);
    }
    if (gemm.a.dtype == DType::u8) {
      set(&product, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(left_to_units));
    }
  }
};

Blas::Blas(bool tf32, bool scales_rows) : tf32_(tf32), scales_rows_(scales_rows) {
  check(cublasLtCreate(&handle_), "opening cuBLASLt");
  int device = 0;
  int major = 0;
  check(cudaGetDevice(&device), "finding the card");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "looking at the card");
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device),
        "looking at the card");
  is_hopper_ = major == 9;
  scales_rows_ = scales_rows_ && is_hopper_;
}

Blas::~Blas() {
  cublasLtDestroy(handle_);
}

const Blas::Choice& Blas::choice_for(const Gemm& actual) {
  const Gemm gemm = of_size_class(actual);
  uint32_t alignments =
      alignment_of(gemm.a.data) | alignment_of(gemm.b.data) << 10 | alignment_of(gemm.c.data) << 20;
  uint32_t flags =
      static_cast<uint32_t>(gemm.transpose_a) | static_cast<uint32_t>(gemm.transpose_b) << 1 |
      static_cast<uint32_t>(gemm.accumulate) << 2 | static_cast<uint32_t>(gemm.bias != nullptr) << 3 |
      static_cast<uint32_t>(gemm.a.dtype) << 4 | static_cast<uint32_t>(gemm.c.dtype) << 8 |
      static_cast<uint32_t>(gemm.a_kind) << 12 | static_cast<uint32_t>(gemm.a_scales != nullptr) << 16;
  int64_t inner = gemm.transpose_a ? gemm.a.rows : gemm.a.columns;
  Key key{gemm.c.rows, gemm.c.columns, inner, gemm.a.stride, gemm.b.stride, gemm.c.stride, alignments, flags};
  auto known = choices_.find(key);
  if (known != choices_.end()) {
    return known->second;
  }
  bool left_to_units = may_be_left_to_units(gemm);
  Guesses guesses = guesses_for(gemm, left_to_units);
  if (guesses.count == 0 && left_to_units) {  // there are shapes that the library has full sums for alone
    left_to_units = false;
    guesses = guesses_for(gemm, left_to_units);
  }
  if (guesses.count == 0) {
    throw environment_error(
        fmt::format("cuBLASLt has no algorithm for a {} product of {} x {} x {} on this card ({}); {}",
                    gemm.a.dtype == DType::u8 ? "fp8" : name_of(gemm.a.dtype), gemm.c.rows, gemm.c.columns,
                    inner, cublasLtGetStatusString(guesses.status),
                    gemm.a.dtype == DType::u8 ? "leave model.compute out" : "try another model.dtype"));
  }
  if (choices_.size() >= kMostChoices) {
    choices_.clear();
  }
  size_t chosen = 0;
  if (is_hopper_ && size_of(gemm.a.dtype) == 2) {
    std::vector<Tiling> tilings;
    for (const cublasLtMatmulHeuristicResult_t& guess :
         std::span(guesses.found).first(static_cast<size_t>(guesses.count))) {
      tilings.push_back(tiling_of(guess.algo));
    }
    bool adds_wide = gemm.accumulate && gemm.c.dtype == DType::f32;
    TiledProduct by_columns{gemm.c.columns, gemm.c.rows, inner, adds_wide};
    chosen = tiling_for_hopper(tilings, by_columns, multiprocessors_);
  }
  return choices_.emplace(key, Choice{guesses.found.at(chosen).algo, left_to_units}).first->second;
}

Blas::Guesses Blas::guesses_for(const Gemm& gemm, bool left_to_units) const {
  Descriptors descriptors(gemm, tf32_, left_to_units);
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "describing a product");
  set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kBlasWorkspaceBytes));
  // Partial sums of a cut inner dimension are added up in one order; in place they would be added as they
  // come.
  set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(gemm.b.data));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(gemm.a.data));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(gemm.c.data));
  set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(gemm.c.data));
  Guesses guesses;
  guesses.status = cublasLtMatmulAlgoGetHeuristic(handle_, &descriptors.product, &descriptors.b,
                                                  &descriptors.a, &descriptors.c, &descriptors.c, &preference,
                                                  Guesses::kMost, guesses.found.data(), &guesses.count);
  if (guesses.status != CUBLAS_STATUS_SUCCESS) {
    guesses.count = 0;
  }
  return guesses;
}

void Blas::run(const Gemm& gemm, std::span<std::byte> workspace, cudaStream_t stream) {
  if (gemm.c.rows == 0 || gemm.c.columns == 0) {
    return;
  }
  SNUG_CHECK(gemm.a.dtype == gemm.b.dtype, "a product of two dtypes");
  SNUG_CHECK(static_cast<int64_t>(workspace.size()) >= kBlasWorkspaceBytes,
             "a product without its workspace");
  const Choice& choice = choice_for(gemm);
  Descriptors descriptors(gemm, tf32_, choice.left_to_units);
  float beta = gemm.accumulate ? 1.0F : 0.0F;
  check(cublasLtMatmul(handle_, &descriptors.product, &gemm.alpha, gemm.b.data, &descriptors.b, gemm.a.data,
                       &descriptors.a, &beta, gemm.c.data, &descriptors.c, gemm.c.data, &descriptors.c,
                       &choice.algorithm, workspace.data(), static_cast<size_t>(kBlasWorkspaceBytes), stream),
        "multiplying matrices");
}

}  // namespace snug::cuda
