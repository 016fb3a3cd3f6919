// cuBLASLt thinks in columns: a row-major C = A B is its C^T = B^T A^T, so the operands change places.
#include "backend/cuda/blas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backend/cuda/check.h"
#include "base/check.h"
#include "base/error.h"

namespace snug::cuda {
namespace {

// Batches of varying length bring new shapes for ever; forgetting all of them now and then bounds the memory.
constexpr size_t kMostChoices = 8192;

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

// 0: sums of 8-bit numbers, which the units keep to few bits, are added up in fp32 now and then.
constexpr int8_t kFastFloat8Sums = 0;

constexpr int kCandidates = 8;  // cuBLASLt's guesses, its best one first

template <typename T>
T attribute_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  size_t written = 0;
  cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : T{};
}

// The first guess, but where larger tiles were seen to lose to those of 128 x 128 on Hopper (by 5 to 50
// percent): with sums that are read, added to and written as fp32, which the larger tile does while nothing
// is multiplied, and where the guess makes up for too few large tiles by cutting the inner dimension.
const cublasLtMatmulHeuristicResult_t& best_of(std::span<const cublasLtMatmulHeuristicResult_t> found,
                                               const Gemm& gemm) {
  auto tile_of = [](const cublasLtMatmulHeuristicResult_t& one) {
    return attribute_of<uint32_t>(one.algo, CUBLASLT_ALGO_CONFIG_TILE_ID);
  };
  uint32_t tile = tile_of(found[0]);
  bool is_large = tile == CUBLASLT_MATMUL_TILE_256x128 || tile == CUBLASLT_MATMUL_TILE_128x256 ||
                  tile == CUBLASLT_MATMUL_TILE_192x192 || tile == CUBLASLT_MATMUL_TILE_320x128;
  bool is_cut = attribute_of<int32_t>(found[0].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1;
  bool adds_wide = gemm.c.dtype == DType::f32 && gemm.accumulate && gemm.a.dtype != DType::f32;
  if (is_large && (is_cut || adds_wide)) {
    for (const cublasLtMatmulHeuristicResult_t& other : found) {
      if (tile_of(other) == CUBLASLT_MATMUL_TILE_128x128) {
        return other;
      }
    }
  }
  return found[0];
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

struct Blas::Descriptors {
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t a;  // ours, which is their B
  cublasLtMatrixLayoutOpaque_t b;
  cublasLtMatrixLayoutOpaque_t c;

  Descriptors(const Gemm& gemm, bool tf32)
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
    if (gemm.a.dtype == DType::u8) {
      set(&product, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      set(&product, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      set(&product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, gemm.b_scales);
      set(&product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, gemm.a_scales);
      set(&product, CUBLASLT_MATMUL_DESC_FAST_ACCUM, kFastFloat8Sums);
    }
  }
};

Blas::Blas(bool tf32) : tf32_(tf32) {
  check(cublasLtCreate(&handle_), "opening cuBLASLt");
}

Blas::~Blas() {
  cublasLtDestroy(handle_);
}

const Blas::Choice& Blas::choice_for(const Gemm& gemm, Descriptors& descriptors) {
  uint32_t alignments =
      alignment_of(gemm.a.data) | alignment_of(gemm.b.data) << 10 | alignment_of(gemm.c.data) << 20;
  uint32_t flags = static_cast<uint32_t>(gemm.transpose_a) | static_cast<uint32_t>(gemm.transpose_b) << 1 |
                   static_cast<uint32_t>(gemm.accumulate) << 2 |
                   static_cast<uint32_t>(gemm.bias != nullptr) << 3 |
                   static_cast<uint32_t>(gemm.a.dtype) << 4 | static_cast<uint32_t>(gemm.c.dtype) << 8 |
                   static_cast<uint32_t>(gemm.a_kind) << 12;
  int64_t inner = gemm.transpose_a ? gemm.a.rows : gemm.a.columns;
  Key key{gemm.c.rows, gemm.c.columns, inner, gemm.a.stride, gemm.b.stride, gemm.c.stride, alignments, flags};
  auto known = choices_.find(key);
  if (known != choices_.end()) {
    return known->second;
  }
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
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, &descriptors.product, &descriptors.b,
                                                         &descriptors.a, &descriptors.c, &descriptors.c,
                                                         &preference, kCandidates, found.data(), &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    throw environment_error(fmt::format(
        "cuBLASLt has no algorithm for a {} product of {} x {} x {} on this card ({}); try another "
        "model.dtype",
        name_of(gemm.a.dtype), gemm.c.rows, gemm.c.columns, inner, cublasLtGetStatusString(status)));
  }
  if (choices_.size() >= kMostChoices) {
    choices_.clear();
  }
  const auto& chosen = best_of({found.data(), static_cast<size_t>(count)}, gemm);
  return choices_.emplace(key, Choice{chosen.algo}).first->second;
}

void Blas::run(const Gemm& gemm, std::span<std::byte> workspace, cudaStream_t stream) {
  if (gemm.c.rows == 0 || gemm.c.columns == 0) {
    return;
  }
  SNUG_CHECK(gemm.a.dtype == gemm.b.dtype, "a product of two dtypes");
  SNUG_CHECK(static_cast<int64_t>(workspace.size()) >= kBlasWorkspaceBytes,
             "a product without its workspace");
  Descriptors descriptors(gemm, tf32_);
  const Choice& choice = choice_for(gemm, descriptors);
  float beta = gemm.accumulate ? 1.0F : 0.0F;
  check(cublasLtMatmul(handle_, &descriptors.product, &gemm.alpha, gemm.b.data, &descriptors.b, gemm.a.data,
                       &descriptors.a, &beta, gemm.c.data, &descriptors.c, gemm.c.data, &descriptors.c,
                       &choice.algorithm, workspace.data(), static_cast<size_t>(kBlasWorkspaceBytes), stream),
        "multiplying matrices");
}

}  // namespace snug::cuda
