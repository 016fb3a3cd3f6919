// What cuBLASLt's guesses for the products of a step are worth, one product at a time: times each of them and
// says how far the first is from the best. tests/backend/tilings_test.cc holds some of it; snug itself never
// chooses by the clock.
//
//   nvcc -std=c++17 -O2 -arch=sm_90 bench/gpu/products.cu -lcublasLt -o products
//   ./products [name part [sustained]]
// A card at its power limit lowers its clocks within some tens of milliseconds. Runs of 10 ms, the default,
// are at the clocks that the guesses before left; sustained runs are long enough for each guess to have its
// own. Products named "fp8" are those of model.compute: fp8: 8-bit numbers with a scale a row, added to bf16.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr int kGuesses = 8;  // as many as snug looks at
constexpr int kRounds = 3;

// Seconds that a guess runs before it is timed, and while it is.
struct Spans {
  double before = 0;
  double timed = 10e-3;
};

void check(int status, const char* what) {
  if (status != 0) {
    std::fprintf(stderr, "%s failed: %d\n", what, status);
    std::exit(1);
  }
}

// y = x W^T, dx = dy W, dW = dy^T x.
enum class Kind { forward, input, weight };

struct Product {
  std::string name;
  Kind kind;
  int64_t tokens, in, out;
  bool adds;            // to what is there
  bool wide;            // the result is fp32
  bool narrow = false;  // the operands have 8 bits, and both lie along the inner dimension
};

struct Model {
  const char* name;
  int64_t tokens, hidden, qkv, attention, inner;
};

std::vector<Product> products_of_models() {
  const Model models[] = {
      {"A 7B 8192", 8192, 3584, 4608, 3584, 18944},     {"C 7B 512", 512, 3584, 4608, 3584, 18944},
      {"C2 7B 2048", 2048, 3584, 4608, 3584, 18944},    {"Qwen3-8B 4096", 4096, 4096, 6144, 4096, 12288},
      {"full 7B 4096", 4096, 3584, 4608, 3584, 18944},  {"full 1.5B 32768", 32768, 1536, 2048, 1536, 8960},
      {"full 0.5B 32768", 32768, 896, 1152, 896, 4864},
  };
  std::vector<Product> all;
  for (const Model& model : models) {
    bool is_full = std::string(model.name).find("full") == 0;
    struct {
      const char* name;
      int64_t in, out;
    } layers[] = {{"qkv", model.hidden, model.qkv},
                  {"attention out", model.attention, model.hidden},
                  {"gate_up", model.hidden, 2 * model.inner},
                  {"down", model.inner, model.hidden}};
    for (const auto& layer : layers) {
      std::string name = std::string(model.name) + ", " + layer.name;
      all.push_back({name + " forward", Kind::forward, model.tokens, layer.in, layer.out, !is_full, false});
      all.push_back({name + " dx", Kind::input, model.tokens, layer.in, layer.out, !is_full, false});
      if (is_full) {
        all.push_back({name + " dW", Kind::weight, model.tokens, layer.in, layer.out, true, false});
      }
    }
    int64_t rows = std::min<int64_t>(model.tokens, is_full ? 4096 : 1024);
    std::string head = std::string(model.name) + ", head of " + std::to_string(rows);
    all.push_back({head + " forward", Kind::forward, rows, model.hidden, 151936, false, true});
    all.push_back({head + " dx", Kind::input, rows, model.hidden, 151936, false, false});
    if (is_full) {
      all.push_back({head + " forward bf16", Kind::forward, rows, model.hidden, 151936, false, false});
      all.push_back({head + " dW", Kind::weight, rows, model.hidden, 151936, true, false});
    }
  }
  for (const Model& model : {models[0], models[3]}) {
    std::string name = std::string("fp8 ") + model.name;
    struct {
      const char* name;
      int64_t in, out;
    } layers[] = {{", gate_up", model.hidden, 2 * model.inner}, {", down", model.inner, model.hidden}};
    for (const auto& layer : layers) {
      all.push_back({name + layer.name + " forward", Kind::forward, model.tokens, layer.in, layer.out, true,
                     false, true});
      all.push_back(
          {name + layer.name + " dx", Kind::input, model.tokens, layer.in, layer.out, true, false, true});
    }
  }
  return all;
}

// Codes of E4M3, which are read as E5M2 too.
__global__ void fill_codes(const __nv_bfloat16* from, __nv_fp8_e4m3* codes, size_t count) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    codes[i] = __nv_fp8_e4m3(__bfloat162float(from[i]) * 4096.F);
  }
}

__global__ void fill_ones(float* values, size_t count) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    values[i] = 1.F;
  }
}

__global__ void fill(__nv_bfloat16* values, size_t count, unsigned seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    unsigned x = static_cast<unsigned>(i) * 2654435761U ^ seed;
    float sum = 0;
    for (int k = 0; k < 4; ++k) {  // nearly normal: what the units draw depends on their bits
      x ^= x << 13, x ^= x >> 17, x ^= x << 5;
      sum += static_cast<float>(x >> 8) / 16777216.F - 0.5F;
    }
    values[i] = __float2bfloat16(sum * 0.05F);
  }
}

template <typename T>
T attribute(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name) {
  T value{};
  size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, name, &value, sizeof value, &written);
  return value;
}

struct Card {
  cublasLtHandle_t handle;
  void *a, *b, *c, *workspace;
  void *a_codes, *b_codes, *ones;
};

struct Timed {
  cublasLtMatmulHeuristicResult_t guess;
  std::vector<float> ms;
  float median() const {
    std::vector<float> sorted = ms;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

cublasLtMatrixLayoutOpaque_t rows_by(int64_t rows, int64_t columns, cudaDataType_t type = CUDA_R_16BF) {
  cublasLtMatrixLayoutOpaque_t layout;
  check(cublasLtMatrixLayoutInit(&layout, type, columns, rows, columns), "layout");
  return layout;
}

float time_of(const Card& card, cublasLtMatmulDescOpaque_t& product, cublasLtMatrixLayoutOpaque_t& a,
              cublasLtMatrixLayoutOpaque_t& b, cublasLtMatrixLayoutOpaque_t& c, float beta,
              const cublasLtMatmulAlgo_t& algorithm, int repeats, bool narrow) {
  static cudaEvent_t begin, end;
  if (begin == nullptr) {
    cudaEventCreate(&begin), cudaEventCreate(&end);
  }
  float alpha = 1;
  cudaEventRecord(begin);
  for (int i = 0; i < repeats; ++i) {
    if (cublasLtMatmul(card.handle, &product, &alpha, narrow ? card.b_codes : card.b, &b,
                       narrow ? card.a_codes : card.a, &a, &beta, card.c, &c, card.c, &c, &algorithm,
                       card.workspace, kWorkspaceBytes, nullptr) != CUBLAS_STATUS_SUCCESS) {
      return 1e9F;
    }
  }
  cudaEventRecord(end);
  cudaEventSynchronize(end);
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);
  return ms / static_cast<float>(repeats);
}

void compare(const Card& card, const Product& one, const Spans& spans) {
  cublasLtMatmulDescOpaque_t product;
  check(cublasLtMatmulDescInit(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product");
  // By columns: their A is our right operand.
  cublasOperation_t left = one.kind == Kind::forward || one.narrow ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t right = one.kind == Kind::weight ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
  cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
  auto a = one.kind == Kind::forward ? rows_by(one.tokens, one.in) : rows_by(one.tokens, one.out);
  auto b = one.kind == Kind::weight ? rows_by(one.tokens, one.in) : rows_by(one.out, one.in);
  if (one.narrow) {
    a = rows_by(one.tokens, one.kind == Kind::forward ? one.in : one.out,
                one.kind == Kind::forward ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2);
    b = one.kind == Kind::forward ? rows_by(one.out, one.in, CUDA_R_8F_E4M3)
                                  : rows_by(one.in, one.out, CUDA_R_8F_E4M3);
    auto scales = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &scales, sizeof scales);
    cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &scales, sizeof scales);
    for (auto side : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER}) {
      cublasLtMatmulDescSetAttribute(&product, side, &card.ones, sizeof card.ones);
    }
  }
  cudaDataType_t type = one.wide ? CUDA_R_32F : CUDA_R_16BF;
  auto c = one.kind == Kind::forward ? rows_by(one.tokens, one.out, type)
           : one.kind == Kind::input ? rows_by(one.tokens, one.in, type)
                                     : rows_by(one.out, one.in, type);
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "preference");
  size_t bytes = kWorkspaceBytes;
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                       sizeof bytes);
  cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme,
                                       sizeof scheme);
  cublasLtMatmulHeuristicResult_t found[kGuesses];
  int count = 0;
  cublasLtMatmulAlgoGetHeuristic(card.handle, &product, &b, &a, &c, &c, &preference, kGuesses, found, &count);
  double flops =
      2.0 * static_cast<double>(one.tokens) * static_cast<double>(one.in) * static_cast<double>(one.out);
  auto repeats_for = [&](double seconds, int least) {
    return std::max(least, static_cast<int>(seconds / (flops / 700e12)));
  };
  std::vector<Timed> timed;
  for (int i = 0; i < count; ++i) {
    timed.push_back({found[i], {}});
  }
  float beta = one.adds ? 1.F : 0.F;
  for (int round = 0; round < kRounds; ++round) {
    for (Timed& guess : timed) {
      auto time = [&](int repeats) {
        return time_of(card, product, a, b, c, beta, guess.guess.algo, repeats, one.narrow);
      };
      time(repeats_for(spans.before, 1));
      guess.ms.push_back(time(repeats_for(spans.timed, 3)));
    }
  }
  auto best = std::min_element(timed.begin(), timed.end(),
                               [](const Timed& x, const Timed& y) { return x.median() < y.median(); });
  int64_t m = one.kind == Kind::forward ? one.out : one.in;
  int64_t n = one.kind == Kind::weight ? one.out : one.tokens;
  int64_t k = one.kind == Kind::forward ? one.in : one.kind == Kind::input ? one.out : one.tokens;
  std::printf(
      "%-44s %6lld %6lld %6lld first %8.4f ms %4.0f TFLOP/s, best is guess %2zd: %8.4f ms, %5.1f%% less\n",
      one.name.c_str(), static_cast<long long>(m), static_cast<long long>(n), static_cast<long long>(k),
      timed[0].median(), flops / timed[0].median() / 1e9, best - timed.begin(), best->median(),
      100 * (1 - best->median() / timed[0].median()));
  for (size_t i = 0; i < timed.size() && i < 12; ++i) {
    const auto& algorithm = timed[i].guess.algo;
    std::printf(
        "    %2zu: %8.4f ms  id %d tile %u stages %u cluster %u split %d scheme %u swizzle %u custom %u "
        "workspace %zu\n",
        i, timed[i].median(), attribute<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID),
        attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
        attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
        unsigned{attribute<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)},
        attribute<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
        attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
        attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
        attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION), timed[i].guess.workspaceSize);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  Card card{};
  check(cublasLtCreate(&card.handle), "cuBLASLt");
  size_t bytes = size_t{5} << 30;
  for (void** buffer : {&card.a, &card.b, &card.c}) {
    check(cudaMalloc(buffer, bytes), "memory");
    fill<<<2048, 256>>>(static_cast<__nv_bfloat16*>(*buffer), bytes / 2,
                        77U + static_cast<unsigned>(buffer - &card.a));
  }
  check(cudaMalloc(&card.workspace, kWorkspaceBytes), "memory");
  constexpr size_t kCodes = size_t{1} << 30;
  constexpr size_t kOnes = size_t{1} << 20;
  for (auto [from, to] : {std::pair{card.a, &card.a_codes}, std::pair{card.b, &card.b_codes}}) {
    check(cudaMalloc(to, kCodes), "memory");
    fill_codes<<<2048, 256>>>(static_cast<__nv_bfloat16*>(from), static_cast<__nv_fp8_e4m3*>(*to), kCodes);
  }
  check(cudaMalloc(&card.ones, kOnes * sizeof(float)), "memory");
  fill_ones<<<256, 256>>>(static_cast<float*>(card.ones), kOnes);
  Spans spans = count > 2 ? Spans{0.12, 0.2} : Spans{};
  std::vector<Product> products = products_of_models();
  for (int i = 0; i < 4; ++i) {
    compare(card, products[4], {});  // a card that is cool is faster for a second
  }
  for (const Product& one : products) {
    if (count < 2 || one.name.find(words[1]) != std::string::npos) {
      compare(card, one, spans);
    }
  }
}
