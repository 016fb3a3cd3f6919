// Attention on the card, checked against the formula in double over many shapes (`attention_check`), or timed
// at the shapes of real models (`attention_check time`); attention_sdpa.py times PyTorch at the same ones.
// `attention_check bits` prints checksums of the gradients there.
// Each check captures forward and backward as a graph, replays it twice on poisoned outputs and compares the
// bits.
#include <algorithm>
#include <functional>
#include <memory>

#include "attention_case.cuh"

namespace snug::cuda {
namespace {

// What is asked of the launchers beyond the problem.
struct Variant {
  const char* name;
  AttentionNumber number;
  bool plain = false;
  bool without_hopper = true;
  int64_t shared_limit_bytes = 0;
  int key_tile_blocks = 0;
};

double number_in(const std::vector<unsigned char>& data, int64_t i, AttentionNumber number) {
  if (number == AttentionNumber::f32) {
    float value;
    std::memcpy(&value, data.data() + i * 4, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, data.data() + i * 2, 2);
  if (number == AttentionNumber::f16) {
    return static_cast<double>(__half2float(__half(__half_raw{bits})));
  }
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

// A rectangle of a result, and what it should hold.
struct Compared {
  const char* name;
  const DeviceBuffer* actual;
  int64_t first_column;
  int64_t stride;
  int64_t rows;
  int64_t columns;
  const double* wanted;  // on the card, no gaps
  AttentionNumber number;
};

// |actual - wanted| / |wanted| in the Euclidean norm, as if each wanted number were at least 1e-2 (one key
// alone has a gradient of zero); NaN counts as infinite.
double error_of(const Compared& c) {
  std::vector<unsigned char> actual = c.actual->read();
  std::vector<double> wanted(static_cast<size_t>(c.rows * c.columns));
  must(cudaMemcpy(wanted.data(), c.wanted, wanted.size() * 8, cudaMemcpyDeviceToHost), "cudaMemcpy");
  double difference = 0;
  double norm = 1e-4 * static_cast<double>(std::max<int64_t>(c.rows * c.columns, 1));
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      double a = number_in(actual, i * c.stride + c.first_column + j, c.number);
      double w = wanted[static_cast<size_t>(i * c.columns + j)];
      if (std::isinf(w) && w == a) {
        continue;
      }
      if (!std::isfinite(a)) {
        return INFINITY;
      }
      difference += (a - w) * (a - w);
      norm += w * w;
    }
  }
  return std::sqrt(difference / norm);
}

class Check {
 public:
  Check(const Problem& problem, const Variant& variant)
      : problem_(problem), variant_(variant), setting_(problem, variant.number, problem.spare_rows) {
    AttentionParameters& p = setting_.parameters;
    p.without_tensor_cores = variant.plain;
    p.without_hopper = variant.without_hopper;
    p.shared_limit_bytes = variant.shared_limit_bytes;
    p.key_tile_blocks = variant.key_tile_blocks;
  }

  bool run() {
    const char* missing = find_unsupported_attention(setting_.parameters);
    if (*missing != '\0') {
      std::printf("FAIL %s: unsupported: %s\n", problem_.name, missing);
      return false;
    }
    std::vector<std::vector<unsigned char>> first;
    std::vector<std::vector<unsigned char>> second;
    replay(first, second);
    bool same = first == second;
    double worst = compare();
    double limit = variant_.number == AttentionNumber::f32 ? 1e-4 : 1e-2;
    limit = variant_.number == AttentionNumber::f16 ? 2e-3 : limit;
    bool spare = spare_columns_untouched(first);
    bool good = same && worst < limit && spare;
    if (!good) {
      std::printf("FAIL %s / %s: %s%s%s\n", problem_.name, variant_.name, errors_.c_str(),
                  same ? "" : " BITS DIFFER", spare ? "" : " WROTE BEYOND ITS COLUMNS OR ROWS");
    }
    worst_ = worst;
    return good;
  }
  double worst() const { return worst_; }

 private:
  void replay(std::vector<std::vector<unsigned char>>& first,
              std::vector<std::vector<unsigned char>>& second) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    must(cudaStreamCreate(&stream), "cudaStreamCreate");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    must(attention_forward(setting_.parameters, stream), "attention_forward");
    must(attention_backward(setting_.parameters, stream), "attention_backward");
    must(cudaStreamEndCapture(stream, &graph), "end of capture");
    must(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    for (auto* results : {&first, &second}) {
      setting_.poison_outputs();
      must(cudaDeviceSynchronize(), "poison");
      must(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
      must(cudaStreamSynchronize(stream), problem_.name);
      for (const DeviceBuffer* buffer :
           {&setting_.o, &setting_.lse, &setting_.dq, &setting_.dkv, &setting_.dbias}) {
        results->push_back(buffer->read());
      }
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }

  // Rows beyond the batch and columns of nobody hold poison still.
  bool spare_columns_untouched(const std::vector<std::vector<unsigned char>>& results) const {
    const std::vector<unsigned char>& dq = results[2];
    for (size_t i = 0; i < dq.size(); ++i) {
      auto column = static_cast<int64_t>(i) / setting_.size_ % setting_.q_columns_;
      auto row = static_cast<int64_t>(i) / setting_.size_ / setting_.q_columns_;
      if ((column < problem_.spare_columns || row >= setting_.tokens_) && dq[i] != kPoison) {
        return false;
      }
    }
    return true;
  }

  double compare() {
    const Setting& s = setting_;
    auto wanted = [](int64_t count) {
      auto buffer = std::make_unique<DeviceBuffer>(static_cast<size_t>(std::max<int64_t>(count, 1) * 8));
      buffer->fill(0);
      return buffer;
    };
    auto o = wanted(s.tokens_ * s.q_width_);
    auto lse = wanted(s.tokens_ * problem_.heads);
    auto dq = wanted(s.tokens_ * s.q_width_);
    auto dk = wanted(s.key_tokens_ * s.kv_width_);
    auto dv = wanted(s.key_tokens_ * s.kv_width_);
    auto dbias = wanted(static_cast<int64_t>(problem_.buckets) * problem_.heads);
    auto values = [](auto& buffer) { return static_cast<double*>(buffer->data); };
    Reference reference{values(o), values(lse), values(dq), values(dk), values(dv), values(dbias)};
    auto items = s.tokens_ * problem_.heads;
    reference_kernel<<<static_cast<unsigned>((items + 63) / 64), 64>>>(s.parameters, reference);
    must(cudaDeviceSynchronize(), "reference_kernel");
    const DeviceBuffer* dkv = problem_.fused() ? &s.dq : &s.dkv;
    int64_t q_column = problem_.spare_columns;
    int64_t k_column = problem_.spare_columns + (problem_.fused() ? s.q_width_ : 0);
    AttentionNumber number = variant_.number;
    double worst = 0;
    for (const Compared& c :
         {Compared{"o", &s.o, 0, s.q_width_, s.tokens_, s.q_width_, reference.o, number},
          Compared{"lse", &s.lse, 0, problem_.heads, s.tokens_, problem_.heads, reference.lse,
                   AttentionNumber::f32},
          Compared{"dq", &s.dq, q_column, s.q_columns_, s.tokens_, s.q_width_, reference.dq, number},
          Compared{"dk", dkv, k_column, s.kv_columns_, s.key_tokens_, s.kv_width_, reference.dk, number},
          Compared{"dv", dkv, k_column + s.kv_width_, s.kv_columns_, s.key_tokens_, s.kv_width_, reference.dv,
                   number},
          Compared{"dbias", &s.dbias, 0, problem_.heads, problem_.buckets, problem_.heads, reference.dbias,
                   number}}) {
      double error = error_of(c);
      worst = std::max(worst, error);
      char text[64];
      std::snprintf(text, sizeof(text), " %s %.1e", c.name, error);
      errors_ += text;
    }
    return worst;
  }

  Problem problem_;
  Variant variant_;
  Setting setting_;
  std::string errors_;
  double worst_ = 0;
};

constexpr int64_t kTuringLimit = 64 << 10;
constexpr int64_t kConsumerLimit = 99 << 10;

std::vector<Problem> check_problems() {
  std::vector<Problem> problems = {
      {"one token", 2, 2, 64, {1}},
      {"short", 2, 1, 64, {7, 1, 33, 0, 64, 65}},
      {"gqa 128", 8, 2, 128, {200, 3, 129, 64, 0, 1}},
      {"mqa 128 long", 3, 1, 128, {700}},
      {"window", 4, 2, 128, {300, 77, 513}, {}, true, 70},
      {"window 1", 2, 2, 64, {130, 5}, {}, true, 1},
      {"full", 4, 4, 64, {190, 65, 1, 128}, {}, false},
      {"full with window", 2, 1, 128, {150, 300}, {}, false, 40},
      {"cross", 4, 4, 64, {70, 1, 128}, {130, 257, 5}, false},
      {"cross 128", 4, 2, 128, {64, 100}, {300, 17}, false},
      {"decoding", 8, 2, 128, {1, 1, 1}, {1, 600, 130}},
      {"decoding with window", 4, 1, 128, {1, 3}, {700, 300}, true, 100},
      {"more queries than keys", 2, 2, 64, {90, 140}, {40, 0}},
      {"head 80", 4, 2, 80, {150, 66}},
      {"head 96", 4, 2, 96, {150, 66}, {}, false},
      {"head 112", 2, 2, 112, {75}},
      {"head 8", 2, 1, 8, {65, 20}},
      {"head 40", 2, 1, 40, {65, 20}},
      {"head 160", 2, 1, 160, {150, 9}},
      {"head 192", 2, 1, 192, {150, 9}},
      {"head 256", 4, 2, 256, {130, 64, 35}},
      {"head 256 window, cross", 4, 2, 256, {100, 40}, {170, 90}, true, 33},
      {"spare columns", 4, 2, 128, {90, 40}, {}, true, 0, 0, true, 128, 8},
      {"sharp", 4, 2, 128, {300}, {}, true, 0, 0, true, 128, 0, 12},
      {"t5 encoder", 4, 4, 64, {300, 65, 512, 1}, {}, false, 0, 32},
      {"t5 decoder", 4, 4, 64, {300, 65, 7}, {}, true, 0, 32, false},
      {"t5 decoding", 4, 4, 64, {1, 1}, {300, 9}, true, 0, 32, false},
      {"t5 few buckets", 2, 2, 128, {200}, {}, false, 0, 8, true, 20},
      {"bias in groups", 4, 2, 128, {140, 300}, {}, true, 0, 32, false},
      {"groups of 7", 14, 2, 128, {700, 130, 385}},
      {"groups of 7, head 64", 7, 1, 64, {385, 900}},
      {"long window", 4, 2, 64, {900, 20}, {}, true, 200},
      {"long window 128", 4, 2, 128, {900, 300}, {}, true, 150},
      {"full and long", 4, 4, 64, {640, 300, 1000}, {}, false},
      {"cross and long", 4, 2, 128, {300, 513}, {700, 130}, false},
      {"long t5 encoder", 4, 4, 64, {700, 512}, {}, false, 0, 32},
      {"long t5 decoder", 4, 4, 64, {700, 512}, {}, true, 0, 32, false},
      {"shared clusters, window", 28, 4, 128, {500}, {}, true, 200},
      {"shared clusters, cross", 28, 4, 128, {300}, {512}},
      {"shared clusters", 28, 4, 128, {449}},
      {"shared clusters, no spare rows", 28, 4, 128, {512}, {}, true, 0, 0, true, 128, 0, 1, 0},
      {"one sequence, no spare rows", 4, 2, 128, {701}, {}, true, 0, 0, true, 128, 0, 1, 0},
  };
  auto drop = [&](Problem problem, float dropout) {
    problem.dropout = dropout;
    problems.push_back(problem);
  };
  drop({"drop short", 2, 1, 64, {7, 1, 33, 0, 64, 65}}, 0.1F);
  drop({"drop head 40", 2, 1, 40, {65, 20}}, 0.2F);
  drop({"drop gqa 128", 8, 2, 128, {200, 3, 129, 64, 0, 1}}, 0.3F);
  drop({"drop groups of 7", 7, 1, 64, {385, 900}}, 0.1F);
  drop({"drop window", 4, 2, 64, {900, 20}, {}, true, 203}, 0.2F);
  drop({"drop cross", 4, 4, 64, {70, 1, 128}, {130, 257, 5}, false}, 0.5F);
  drop({"drop t5 encoder", 4, 4, 64, {300, 65, 512, 1}, {}, false, 0, 32}, 0.1F);
  drop({"drop t5 decoder", 4, 4, 64, {700, 512}, {}, true, 0, 32, false}, 0.1F);
  drop({"drop whole tiles", 2, 2, 64, {256, 128}, {}, true, 0, 0, true, 128, 0, 1, 0}, 0.1F);
  std::vector<int> many(300, 3);
  problems.push_back({"300 sequences", 2, 1, 64, many});
  return problems;
}

std::vector<Variant> variants_of(const std::string& mode) {
  if (mode == "portable") {
    return {{"fp16, 3 a tile", AttentionNumber::f16, false, true, 0, 3},
            {"bf16 in 99 KB", AttentionNumber::bf16, false, true, kConsumerLimit}};
  }
  if (mode == "shared") {
    return {{"fp16, 3 a tile", AttentionNumber::f16, false, true, 0, 3},
            {"bf16, 2 a tile", AttentionNumber::bf16, false, true, 0, 2},
            {"bf16 in 99 KB, 8", AttentionNumber::bf16, false, true, kConsumerLimit, 8},
            {"bf16", AttentionNumber::bf16}};
  }
  std::vector<Variant> variants;
  if (mode != "hopper") {
    variants.push_back({"fp16", AttentionNumber::f16});
    variants.push_back({"fp16, 3 a tile", AttentionNumber::f16, false, true, 0, 3});
    variants.push_back({"fp16 in 64 KB", AttentionNumber::f16, false, true, kTuringLimit});
    variants.push_back({"bf16 plain", AttentionNumber::bf16, true});
  }
  if (mode == "check") {
    variants.push_back({"bf16", AttentionNumber::bf16});
    variants.push_back({"bf16, 2 a tile", AttentionNumber::bf16, false, true, 0, 2});
    variants.push_back({"bf16 in 99 KB", AttentionNumber::bf16, false, true, kConsumerLimit});
    variants.push_back({"bf16 in 99 KB, 8", AttentionNumber::bf16, false, true, kConsumerLimit, 8});
    variants.push_back({"fp32", AttentionNumber::f32, true});
  }
  if (mode != "turing") {
    variants.push_back({"bf16 hopper", AttentionNumber::bf16, false, false});
    variants.push_back({"fp16 hopper", AttentionNumber::f16, false, false});
  }
  return variants;
}

// `check`: everything. `turing`: what code for sm_75 can do. `shared`: gradients of which blocks share tiles.
// `hopper` and `portable`: a third of the problems, for slow tools. `only`: a part of a problem's name.
int run_checks(const std::string& mode, const std::string& only) {
  std::vector<Variant> variants = variants_of(mode);
  int failed = 0;
  for (const Variant& variant : variants) {
    double worst = 0;
    int count = 0;
    std::vector<Problem> problems = check_problems();
    for (size_t i = 0; i < problems.size(); i += mode == "hopper" || mode == "portable" ? 3 : 1) {
      const Problem& problem = problems[i];
      if (std::string(problem.name).find(only) == std::string::npos) {
        continue;
      }
      Check check(problem, variant);
      failed += check.run() ? 0 : 1;
      worst = std::max(worst, check.worst());
      ++count;
    }
    std::printf("%-16s %d problems, worst relative error %.2e\n", variant.name, count, worst);
  }
  // Odd columns: only the plain kernels can read such rows, and they must be found without being asked for.
  Check odd({"odd columns", 4, 2, 16, {1, 20}, {270, 17}, true, 0, 0, true, 128, 1},
            {"bf16", AttentionNumber::bf16});
  failed += odd.run() ? 0 : 1;
  std::printf("%s: %d failed\n", failed == 0 ? "ok" : "FAILED", failed);
  return failed == 0 ? 0 : 1;
}

// Of one call of `work` among those of a graph, as training runs it: for about a millisecond, so that the
// time until a graph starts does not count.
double median_ms(const std::function<void(cudaStream_t)>& work) {
  cudaStream_t stream;
  cudaEvent_t begin;
  cudaEvent_t end;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  must(cudaEventCreate(&begin), "cudaEventCreate");
  must(cudaEventCreate(&end), "cudaEventCreate");
  auto time = [&](int calls, int runs) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    for (int i = 0; i < calls; ++i) {
      work(stream);
    }
    must(cudaStreamEndCapture(stream, &graph), "end of capture");
    must(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    std::vector<float> times;
    for (int i = 0; i < runs; ++i) {
      must(cudaEventRecord(begin, stream), "cudaEventRecord");
      must(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
      must(cudaEventRecord(end, stream), "cudaEventRecord");
      must(cudaEventSynchronize(end), "cudaEventSynchronize");
      float ms = 0;
      must(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
      times.push_back(ms);
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return static_cast<double>(times[times.size() / 2]) / calls;
  };
  double about = time(1, 5);
  double median = time(static_cast<int>(std::clamp(1.0 / about, 1.0, 20.0)), 15);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  return median;
}

std::vector<Problem> timed_problems() {
  std::vector<Problem> problems = {
      {"qwen2.5-7b 4x2048", 28, 4, 128, {2048, 2048, 2048, 2048}},
      {"qwen2.5-7b 1x8192", 28, 4, 128, {8192}},
      {"qwen2.5-7b 1x2048", 28, 4, 128, {2048}},
      {"qwen2.5-7b 1x512", 28, 4, 128, {512}},
      {"qwen2.5-7b 2x2048", 28, 4, 128, {2048, 2048}},
      {"qwen2.5-7b 4x1024", 28, 4, 128, {1024, 1024, 1024, 1024}},
      {"qwen2.5-7b 1x16384", 28, 4, 128, {16384}},
      {"qwen2.5-7b 1x32768", 28, 4, 128, {32768}},
      {"qwen2.5-7b 80x100", 28, 4, 128, std::vector<int>(80, 100)},
      {"qwen3-8b 2x2048", 32, 8, 128, {2048, 2048}},
      {"llama-7b 4x2048", 32, 32, 128, {2048, 2048, 2048, 2048}},
      {"qwen2.5-0.5b 32x1024", 14, 2, 64, std::vector<int>(32, 1024)},
      {"mistral 4x1536", 32, 8, 128, {1536, 1536, 1536, 1536}},
      {"t5-xl encoder 8x512", 32, 32, 64, std::vector<int>(8, 512), {}, false, 0, 32},
      {"t5-xl decoder 8x256", 32, 32, 64, std::vector<int>(8, 256), {}, true, 0, 32, false},
      {"t5-xl cross 256x512", 32, 32, 64, std::vector<int>(8, 256), std::vector<int>(8, 512), false},
      {"gemma-like d256 2x2048", 16, 8, 256, {2048, 2048}},
  };
  std::vector<Problem> dropped = {
      {"drop t5-xl encoder", 32, 32, 64, std::vector<int>(8, 512), {}, false, 0, 32},
      {"drop t5-xl decoder", 32, 32, 64, std::vector<int>(8, 256), {}, true, 0, 32, false},
      {"drop t5-xl cross", 32, 32, 64, std::vector<int>(8, 256), std::vector<int>(8, 512), false},
  };
  for (Problem& problem : dropped) {
    problem.dropout = 0.1F;
    problems.push_back(problem);
  }
  return problems;
}

// A checksum of all gradients after each of some runs at the timed shapes, on poisoned outputs: the same in
// every run, and between two builds whose arithmetic is the same.
void print_bits(const std::string& only) {
  for (const Problem& problem : timed_problems()) {
    if (std::string(problem.name).find(only) == std::string::npos) {
      continue;
    }
    Setting setting(problem, AttentionNumber::bf16, 0);
    std::printf("%-24s", problem.name);
    for (int run = 0; run < 3; ++run) {
      setting.poison_outputs();
      must(attention_forward(setting.parameters, nullptr), "forward");
      must(attention_backward(setting.parameters, nullptr), "backward");
      must(cudaDeviceSynchronize(), problem.name);
      uint64_t sum = 14695981039346656037U;
      for (const DeviceBuffer* buffer : {&setting.dq, &setting.dkv}) {
        for (unsigned char byte : buffer->read()) {
          sum = (sum ^ byte) * 1099511628211U;
        }
      }
      std::printf(" %016llx", static_cast<unsigned long long>(sum));
    }
    std::printf("\n");
  }
}

// `only`: a part of a problem's name; `ways`: initials of the ways to time; `key_tile_blocks`: as in
// AttentionParameters.
void run_timing(const std::string& only, const std::string& ways, int key_tile_blocks) {
  for (const Problem& problem : timed_problems()) {
    for (const char* way : {"portable", "consumer", "hopper"}) {
      if (std::string(problem.name).find(only) == std::string::npos ||
          ways.find(way[0]) == std::string::npos) {
        continue;
      }
      Setting setting(problem, AttentionNumber::bf16, 0);
      AttentionParameters p = setting.parameters;
      p.without_hopper = way[0] != 'h';
      p.shared_limit_bytes = way[0] == 'c' ? kConsumerLimit : 0;
      p.key_tile_blocks = key_tile_blocks;
      double flops = 0;
      for (size_t s = 0; s < problem.queries.size(); ++s) {
        flops += 4.0 * problem.queries[s] * problem.key_counts()[s] * problem.heads * problem.head_dim *
                 (problem.causal ? 0.5 : 1.0);
      }
      double forward = median_ms([&](cudaStream_t stream) { must(attention_forward(p, stream), "forward"); });
      double backward =
          median_ms([&](cudaStream_t stream) { must(attention_backward(p, stream), "backward"); });
      std::printf("%-24s %-9s forward %7.3f ms %4.0f TFLOP/s, backward %7.3f ms %4.0f TFLOP/s\n",
                  problem.name, way, forward, flops / forward * 1e-9, backward,
                  2.5 * flops / backward * 1e-9);
    }
  }
}

}  // namespace
}  // namespace snug::cuda

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string mode = count > 1 ? arguments[1] : "check";
  if (mode == "time") {
    snug::cuda::run_timing(count > 2 ? arguments[2] : "", count > 3 ? arguments[3] : "pch",
                           count > 4 ? std::atoi(arguments[4]) : 0);
    return 0;
  }
  if (mode == "bits") {
    snug::cuda::print_bits(count > 2 ? arguments[2] : "");
    return 0;
  }
  return snug::cuda::run_checks(mode, count > 2 ? arguments[2] : "");
}
