// What both gradients of LoRA's up product take in recorded graphs: the library's products, one after the
// other, and the kernel of our own, at a 7B model's shapes. dy is written anew before each, as it is in a
// step, and what that takes alone is subtracted; B, the down product and dB are others each time.
//
//   adapter_gradients [tokens] [rank]
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/blas.h"
#include "backend/cuda/check.h"
#include "backend/cuda/lora_gradients.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

constexpr int kSets = 8;  // of buffers, so that none but dy is in the cache
constexpr int kReplays = 40;

struct Case {
  std::string name;
  std::vector<int64_t> parts;
};

void* allocate(int64_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<size_t>(bytes)), "memory");
  return memory;
}

// bf16 numbers between -1 and 1.
void* random_matrix(int64_t count, uint64_t seed) {
  std::vector<uint16_t> values(static_cast<size_t>(count));
  for (uint16_t& value : values) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    float number = static_cast<float>(static_cast<int32_t>(seed >> 32)) / 2147483648.0F;
    uint32_t bits = 0;
    std::memcpy(&bits, &number, 4);
    value = static_cast<uint16_t>(bits >> 16);
  }
  void* memory = allocate(2 * count);
  check(cudaMemcpy(memory, values.data(), static_cast<size_t>(2 * count), cudaMemcpyHostToDevice), "values");
  return memory;
}

struct Buffers {
  std::vector<Tensor> inputs;   // dy, down, B
  std::vector<Tensor> outputs;  // ddown, dB
};

Tensor tensor(void* data, DType dtype, int64_t rows, int64_t columns) {
  return {.data = data, .dtype = dtype, .rank = 2, .dims = {rows, columns}};
}

class Bench {
 public:
  Bench(const Case& c, int64_t tokens, int64_t rank) : blas_(false) {
    check(cudaStreamCreate(&stream_), "a stream");
    LoraAttributes attributes{0.25F, rank, {}};
    int64_t columns = 0;
    for (int64_t part : c.parts) {
      attributes.parts.push_back({columns, columns, part});
      columns += part;
    }
    op_.kind = OpKind::lora_up_backward;
    op_.attributes = attributes;
    dy_bytes_ = 2 * tokens * columns;
    source_ = random_matrix(tokens * columns, 1);
    void* dy = allocate(dy_bytes_);
    check(cudaMemcpy(dy, source_, static_cast<size_t>(dy_bytes_), cudaMemcpyDeviceToDevice), "dy");
    int64_t stacked = std::ssize(c.parts) * rank;
    for (uint64_t i = 0; i < kSets; ++i) {
      sets_.push_back({{tensor(dy, DType::bf16, tokens, columns),
                        tensor(random_matrix(tokens * stacked, 2 + i), DType::bf16, tokens, stacked),
                        tensor(random_matrix(columns * rank, 20 + i), DType::bf16, columns, rank)},
                       {tensor(allocate(2 * tokens * stacked), DType::bf16, tokens, stacked),
                        tensor(allocate(4 * columns * rank), DType::f32, columns, rank)}});
    }
    workspace_ = {static_cast<std::byte*>(allocate(kBlasWorkspaceBytes)), kBlasWorkspaceBytes};
  }

  bool run_own(const Buffers& set, bool ddown, bool db) {
    std::vector<Tensor> outputs = {ddown ? set.outputs[0] : Tensor{}, db ? set.outputs[1] : Tensor{}};
    return hopper_lora_gradients({op_, set.inputs, outputs, workspace_}, stream_);
  }
  void run_library(const Buffers& set) {
    using In = LoraUpBackwardInput;
    const auto& attributes = attributes_of<LoraAttributes>(op_);
    Matrix dy = matrix(set.inputs[In::dy]);
    int64_t rank = attributes.rank;
    for (size_t i = 0; i < attributes.parts.size(); ++i) {
      const LoraPart& part = attributes.parts[i];
      Matrix y = dy.column_block(part.y_column, part.rows);
      auto ranks = [&](const Tensor& t) {
        return matrix(t).column_block(static_cast<int64_t>(i) * rank, rank);
      };
      blas_.run({.a = y,
                 .b = ranks(set.inputs[In::down]),
                 .c = matrix(set.outputs[1]).row_block(part.b_row, part.rows),
                 .transpose_a = true,
                 .alpha = attributes.scale},
                workspace_, stream_);
      blas_.run({.a = y,
                 .b = matrix(set.inputs[In::b]).row_block(part.b_row, part.rows),
                 .c = ranks(set.outputs[0]),
                 .alpha = attributes.scale},
                workspace_, stream_);
    }
  }

  // Microseconds a time, of a graph of all sets.
  double time(const std::function<void(const Buffers&)>& run) {
    for (const Buffers& set : sets_) {
      run(set);
    }
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t recorded = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording");
    for (const Buffers& set : sets_) {
      check(cudaMemcpyAsync(set.inputs[0].data, source_, static_cast<size_t>(dy_bytes_),
                            cudaMemcpyDeviceToDevice, stream_),
            "dy");
      run(set);
    }
    check(cudaStreamEndCapture(stream_, &graph), "recording");
    check(cudaGraphInstantiate(&recorded, graph, 0), "a graph");
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    check(cudaEventCreate(&begin), "an event");
    check(cudaEventCreate(&end), "an event");
    std::vector<float> times;
    for (int i = 0; i < kReplays; ++i) {
      check(cudaEventRecord(begin, stream_), "an event");
      check(cudaGraphLaunch(recorded, stream_), "a graph");
      check(cudaEventRecord(end, stream_), "an event");
      check(cudaStreamSynchronize(stream_), "a graph");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin, end), "an event");
      times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    return 1e3 * times[times.size() / 2] / kSets;
  }

  std::vector<float> result(size_t index) const {
    const Tensor& from = sets_[0].outputs[index];
    std::vector<std::byte> raw(static_cast<size_t>(from.bytes()));
    check(cudaMemcpy(raw.data(), from.data, raw.size(), cudaMemcpyDeviceToHost), "a result");
    std::vector<float> values(static_cast<size_t>(from.elements()));
    convert(from.dtype, raw.data(), DType::f32, values.data(), from.elements());
    return values;
  }

 private:
  Blas blas_;
  cudaStream_t stream_ = nullptr;
  Op op_;
  void* source_ = nullptr;
  int64_t dy_bytes_ = 0;
  std::vector<Buffers> sets_;
  std::span<std::byte> workspace_;
};

// |a - b| / |b|.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0;
  double whole = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(static_cast<double>(a[i]) - b[i], 2);
    whole += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(apart / whole);
}

void compare(const Case& c, int64_t tokens, int64_t rank) {
  Bench bench(c, tokens, rank);
  double writing = bench.time([](const Buffers&) {});
  double library = bench.time([&](const Buffers& set) { bench.run_library(set); });
  std::vector<float> ddown = bench.result(0);
  std::vector<float> db = bench.result(1);
  bool runs = true;
  auto own = [&](bool makes_ddown, bool makes_db) {
    return bench.time([&](const Buffers& set) { runs = bench.run_own(set, makes_ddown, makes_db) && runs; });
  };
  double both = own(true, true);
  double ddown_apart = difference(bench.result(0), ddown);
  double db_apart = difference(bench.result(1), db);
  double ddown_alone = own(true, false);
  double db_alone = own(false, true);
  if (!runs) {
    fmt::print("{:<14} library {:6.1f} us; not for the kernel of our own\n", c.name, library - writing);
    return;
  }
  fmt::print(
      "{:<14} library {:6.1f} us, own {:6.1f} (ddown alone {:.1f}, dB alone {:.1f}); apart by {:.1e} and "
      "{:.1e}\n",
      c.name, library - writing, both - writing, ddown_alone - writing, db_alone - writing, ddown_apart,
      db_apart);
  std::fflush(stdout);
}

}  // namespace
}  // namespace snug::cuda

int main(int argc, char** argv) {
  int64_t tokens = argc > 1 ? std::stoll(argv[1]) : 512;
  int64_t rank = argc > 2 ? std::stoll(argv[2]) : 128;
  const snug::cuda::Case cases[] = {
      {"q, k, v", {3584, 512, 512}}, {"out and down", {3584}}, {"gate, up", {18944, 18944}}};
  for (const snug::cuda::Case& c : cases) {
    snug::cuda::compare(c, tokens, rank);
  }
}
