// One attention problem on the card, with random numbers: buffers, parameters, and what came out. Used by the
// check and the timing of attention_check.cu.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "attention_reference.cuh"

namespace snug::cuda {

inline void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    std::printf("%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
  }
}

struct Problem {
  const char* name = "";
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 64;
  std::vector<int> queries;
  std::vector<int> keys = {};  // empty: as many as queries, and q, k, v are one buffer
  bool causal = true;
  int window = 0;
  int buckets = 0;  // 0: no relative bias
  bool bidirectional = true;
  int max_distance = 128;
  int spare_columns = 0;  // that belong to nobody, at the front of each row
  float magnitude = 1;    // of the queries: larger ones give sharper weights
  int spare_rows = 37;    // for checks
  float dropout = 0;      // of the weights

  bool fused() const { return keys.empty(); }
  const std::vector<int>& key_counts() const { return fused() ? queries : keys; }
};

inline constexpr unsigned char kPoison = 0xFF;  // NaN in every dtype

struct DeviceBuffer {
  void* data = nullptr;
  size_t bytes = 0;

  explicit DeviceBuffer(size_t count) : bytes(count) {
    must(cudaMalloc(&data, count + 16), "cudaMalloc");
    must(cudaMemset(data, kPoison, count), "cudaMemset");
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data); }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> host(bytes);
    must(cudaMemcpy(host.data(), data, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }
  void fill(int value) const { must(cudaMemset(data, value, bytes), "cudaMemset"); }
};

__device__ inline uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

// About normal: the sum of four uniform numbers.
static __global__ void random_kernel(void* data, int64_t count, uint32_t seed, float magnitude,
                                     AttentionNumber number) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) {
    return;
  }
  float sum = 0;
  for (uint32_t n = 0; n < 4; ++n) {
    sum += static_cast<float>(mix(static_cast<uint32_t>(i) * 4 + n + mix(seed))) * 0x1p-32F - 0.5F;
  }
  sum *= 1.732F * magnitude;
  if (number == AttentionNumber::f32) {
    static_cast<float*>(data)[i] = sum;
  } else if (number == AttentionNumber::f16) {
    static_cast<__half*>(data)[i] = __float2half(sum);
  } else {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(sum);
  }
}

// With spare rows the planned counts are larger than the batch, as in training: rows and sequences are left
// over, and the rows beyond the batch hold NaN.
class Setting {
 public:
  Setting(const Problem& problem, AttentionNumber number, int spare_rows)
      : size_(number == AttentionNumber::f32 ? 4 : 2),
        tokens_(sum(problem.queries)),
        key_tokens_(sum(problem.key_counts())),
        q_width_(problem.heads * problem.head_dim),
        kv_width_(problem.kv_heads * problem.head_dim),
        q_columns_(problem.spare_columns + q_width_ + (problem.fused() ? 2 * kv_width_ : 0)),
        kv_columns_(problem.fused() ? q_columns_ : problem.spare_columns + 2 * kv_width_),
        q(bytes(tokens_ + spare_rows, q_columns_)),
        kv(problem.fused() ? 0 : bytes(key_tokens_ + spare_rows, kv_columns_)),
        dq(bytes(tokens_ + spare_rows, q_columns_)),
        dkv(problem.fused() ? 0 : bytes(key_tokens_ + spare_rows, kv_columns_)),
        o(bytes(tokens_ + spare_rows, q_width_)),
        dout(bytes(tokens_ + spare_rows, q_width_)),
        lse((tokens_ + spare_rows) * problem.heads * sizeof(float)),
        bias(bytes(problem.buckets, problem.heads)),
        dbias(bytes(problem.buckets, problem.heads)),
        offsets((problem.queries.size() + 3) * 2 * sizeof(int32_t)),
        random(3 * sizeof(int64_t)) {
    fill_parameters(problem, number, spare_rows);
    randomise(q.data, tokens_ * q_columns_, 1, problem.magnitude);
    randomise(kv.data, problem.fused() ? 0 : key_tokens_ * kv_columns_, 2, 1);
    randomise(dout.data, tokens_ * q_width_, 3, 1);
    randomise(bias.data, static_cast<int64_t>(problem.buckets) * problem.heads, 4, 1);
    workspace.reset(new DeviceBuffer(static_cast<size_t>(attention_backward_workspace_bytes(parameters))));
    parameters.workspace = workspace->data;
    must(cudaDeviceSynchronize(), "random numbers");
  }

  int64_t size_;
  int64_t tokens_;
  int64_t key_tokens_;
  int64_t q_width_;
  int64_t kv_width_;
  int64_t q_columns_;
  int64_t kv_columns_;
  DeviceBuffer q, kv, dq, dkv, o, dout, lse, bias, dbias, offsets, random;
  std::unique_ptr<DeviceBuffer> workspace;
  AttentionParameters parameters;

  void poison_outputs() const {
    for (const DeviceBuffer* buffer : {&dq, &dkv, &o, &lse}) {
      buffer->fill(kPoison);
    }
    dbias.fill(0);
    workspace->fill(kPoison);
  }

 private:
  static int64_t sum(const std::vector<int>& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  }
  size_t bytes(int64_t rows, int64_t columns) const { return static_cast<size_t>(rows * columns * size_); }

  void randomise(void* data, int64_t count, uint32_t seed, float magnitude) {
    if (count > 0) {
      random_kernel<<<static_cast<unsigned>((count + 255) / 256), 256>>>(data, count, seed, magnitude,
                                                                         parameters.number);
      must(cudaGetLastError(), "random_kernel");
    }
  }

  void fill_parameters(const Problem& problem, AttentionNumber number, int spare_rows) {
    auto at = [&](const DeviceBuffer& buffer, int64_t column) {
      return static_cast<char*>(buffer.data) + column * size_;
    };
    AttentionParameters& p = parameters;
    p.number = number;
    const DeviceBuffer& keys = problem.fused() ? q : kv;
    const DeviceBuffer& dkeys = problem.fused() ? dq : dkv;
    int64_t k_column = problem.spare_columns + (problem.fused() ? q_width_ : 0);
    p.q = at(q, problem.spare_columns);
    p.dq = at(dq, problem.spare_columns);
    p.k = at(keys, k_column);
    p.v = at(keys, k_column + kv_width_);
    p.dk = at(dkeys, k_column);
    p.dv = at(dkeys, k_column + kv_width_);
    p.q_stride = p.dq_stride = q_columns_;
    p.kv_stride = p.dkv_stride = kv_columns_;
    p.o = o.data;
    p.dout = dout.data;
    p.lse = static_cast<float*>(lse.data);
    if (problem.buckets > 0) {
      p.bias = bias.data;
      p.dbias = dbias.data;
      p.buckets = problem.buckets;
      p.max_distance = problem.max_distance;
      p.bidirectional_buckets = problem.bidirectional;
    }
    if (problem.dropout > 0) {
      const int64_t numbers[3] = {5, 8, 1234567};  // seed, step, first token
      must(cudaMemcpy(random.data, numbers, sizeof(numbers), cudaMemcpyHostToDevice), "cudaMemcpy");
      p.random = static_cast<const int64_t*>(random.data);
      p.dropout = problem.dropout;
      p.dropout_stream = 11;
    }
    p.queries = tokens_ + spare_rows;
    p.keys = key_tokens_ + spare_rows;
    p.sequences = static_cast<int64_t>(problem.queries.size()) + (spare_rows > 0 ? 2 : 0);
    p.heads = problem.heads;
    p.kv_heads = problem.kv_heads;
    p.head_dim = problem.head_dim;
    p.scale = 1.0F / std::sqrt(static_cast<float>(problem.head_dim));
    p.causal = problem.causal;
    p.window = problem.window;
    std::vector<int32_t> host;
    for (const std::vector<int>* counts : {&problem.queries, &problem.key_counts()}) {
      host.push_back(0);
      for (int count : *counts) {
        host.push_back(host.back() + count);
      }
      host.push_back(host.back());
      host.push_back(host.back());
    }
    must(cudaMemcpy(offsets.data, host.data(), host.size() * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
    p.q_offsets = static_cast<const int32_t*>(offsets.data);
    p.kv_offsets = p.q_offsets + problem.queries.size() + 3;
  }
};

}  // namespace snug::cuda
