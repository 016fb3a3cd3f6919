// loss_head and loss_head_gradient: the output product, log-softmax and cross-entropy, a chunk of tokens at
// a time. Only tokens with a target take part: they are gathered into full chunks first.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "backend/cpu/fast_math.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/scratch.h"
#include "base/threads.h"
#include "program/operands.h"

namespace snug::cpu {
namespace {

using In = LossHeadInput;
using Out = LossHeadOutput;

// C rows of a chunk, V vocabulary, D model width.
struct Chunk {
  float* logits = nullptr;      // [C,V]; then exp(logits - maximum); then their gradient
  float* x = nullptr;           // [C,D]
  float* dx = nullptr;          // [C,D]; null without gradient
  double* losses = nullptr;     // [C]
  int32_t* tokens = nullptr;    // [C]: the token that each row of the chunk came from
  int32_t* targets = nullptr;   // [C]: and what it has to predict
  int64_t count = 0;            // rows in use
  std::span<std::byte> rest{};  // for the GEMMs
};

// Left to the backend: about 16 MiB of logits, which keeps the product efficient and the cache warm.
int64_t chunk_rows(const Op& op, int64_t targets, int64_t vocabulary) {
  int64_t asked = attributes_of<LossAttributes>(op).chunk_tokens;
  int64_t rows = asked > 0 ? asked : std::max<int64_t>(32, (int64_t{16} << 20) / (4 * vocabulary));
  return std::min(rows, targets);
}

Chunk take_chunk(const KernelCall& call, int64_t rows, bool with_gradient) {
  int64_t width = call.inputs[In::x].columns();
  Scratch scratch(call.workspace);
  Chunk chunk;
  chunk.logits = scratch.take<float>(rows * call.inputs[In::w].rows());
  chunk.x = scratch.take<float>(rows * width);
  chunk.dx = with_gradient ? scratch.take<float>(rows * width) : nullptr;
  chunk.losses = scratch.take<double>(rows);
  chunk.tokens = scratch.take<int32_t>(rows);
  chunk.targets = scratch.take<int32_t>(rows);
  chunk.rest = scratch.rest();
  return chunk;
}

int64_t workspace_of(const Program& program, const Op& op, bool with_gradient, int threads) {
  const Buffer& targets = program.buffer(op.inputs[In::targets]);
  const Buffer& weight = program.buffer(op.inputs[In::w]);
  int64_t vocabulary = weight.dims[0].max;
  int64_t rows = chunk_rows(op, targets.dims[0].max, vocabulary);
  int64_t width = weight.dims[1].max;
  int64_t bytes = padded_bytes_of<float>(rows * vocabulary) + padded_bytes_of<float>(rows * width) +
                  padded_bytes_of<double>(rows) + 2 * padded_bytes_of<int32_t>(rows);
  int64_t gemm_bytes =
      gemm_workspace_bytes({rows, vocabulary, width, DType::f32, weight.dtype(), DType::f32}, threads);
  if (with_gradient) {
    bytes += padded_bytes_of<float>(rows * width);
    gemm_bytes = std::max(
        gemm_bytes,
        gemm_workspace_bytes({rows, width, vocabulary, DType::f32, weight.dtype(), DType::f32}, threads));
    if (op.has_output(Out::dw)) {
      Format gradient = program.buffer(op.outputs[Out::dw]).format;
      gemm_bytes = std::max(
          gemm_bytes,
          gemm_workspace_bytes({vocabulary, width, rows, DType::f32, DType::f32, gradient}, threads));
    }
  }
  return bytes + gemm_bytes;
}

// Gathers tokens with a target from row `begin` of the head on, until the chunk is full; returns the next
// row.
int64_t gather(const KernelCall& call, int64_t begin, int64_t capacity, Chunk& chunk) {
  const Tensor& x = call.inputs[In::x];
  const Tensor& targets = call.inputs[In::targets];
  const int32_t* rows = call.inputs[In::rows].as<int32_t>();
  int64_t vocabulary = call.inputs[In::w].rows();
  int64_t row = begin;
  chunk.count = 0;
  for (; row < targets.rows() && chunk.count < capacity; ++row) {
    int32_t target = targets.as<int32_t>()[row];
    if (target < 0) {
      continue;
    }
    SNUG_CHECK(target < vocabulary, "a target lies outside the vocabulary");
    SNUG_CHECK(rows[row] >= 0 && rows[row] < x.rows(), "a target belongs to no token");
    load_block(matrix(x).row_block(rows[row], 1), chunk.x + chunk.count * x.columns(), x.columns());
    chunk.tokens[chunk.count] = rows[row];
    chunk.targets[chunk.count++] = target;
  }
  return row;
}

float maximum(const float* row, int64_t count) {
  float largest = row[0];
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, row[i]);
  }
  return largest;
}

// The sum of exp(row - largest), which replace the row if kStore. fp32 within short pieces, fp64 across.
template <bool kStore>
double exponential_sum(float* row, int64_t count, float largest) {
  constexpr int64_t kPiece = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    int64_t end = std::min(count, begin + kPiece);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = begin; i < end; ++i) {
      float value = fast_exp(row[i] - largest);
      if constexpr (kStore) {
        row[i] = value;
      }
      sum += value;
    }
    total += static_cast<double>(sum);
  }
  return total;
}

struct RowLoss {
  double loss = 0;
  bool is_hit = false;  // the target is the first of the largest logits; not told with a gradient
};

// The loss of one row of logits: log-sum-exp minus the target's logit. kGradient leaves
// (softmax - onehot) * scale in the row, which stays in the second-level cache meanwhile.
template <bool kGradient>
RowLoss row_loss(float* row, int64_t vocabulary, int32_t target, float scale) {
  float largest = maximum(row, vocabulary);
  double target_logit = static_cast<double>(row[target]);
  // As greedy decoding would choose: of equal logits the first.
  bool is_hit = !kGradient && row[target] >= largest && std::find(row, row + target, largest) == row + target;
  double sum = exponential_sum<kGradient>(row, vocabulary, largest);
  if constexpr (kGradient) {
    auto factor = static_cast<float>(static_cast<double>(scale) / sum);
    for (int64_t i = 0; i < vocabulary; ++i) {
      row[i] *= factor;
    }
    row[target] -= scale;
  }
  return {static_cast<double>(largest) + std::log(sum) - target_logit, is_hit};
}

// Of a chunk or of all of them.
struct LossSum {
  double loss = 0;
  int64_t hits = 0;
};

// Logits and losses of the gathered rows; returns the sum of the losses, added up in token order.
template <bool kGradient>
LossSum chunk_loss(const KernelCall& call, const Chunk& chunk) {
  const Tensor& weight = call.inputs[In::w];
  int64_t vocabulary = weight.rows();
  float scale = kGradient ? call.inputs[In::scale].as<float>()[0] : 1.0F;
  Gemm product;
  product.a = {chunk.x, DType::f32, chunk.count, weight.columns(), weight.columns()};
  product.b = matrix(weight);
  product.c = {chunk.logits, DType::f32, chunk.count, vocabulary, vocabulary};
  product.transpose_b = true;
  gemm(product, chunk.rest);
  std::atomic<int64_t> hits{0};
  parallel_for(chunk.count, 1, [&](int64_t first, int64_t last) {
    int64_t own_hits = 0;
    for (int64_t i = first; i < last; ++i) {
      RowLoss row = row_loss<kGradient>(chunk.logits + i * vocabulary, vocabulary, chunk.targets[i], scale);
      chunk.losses[i] = row.loss;
      own_hits += row.is_hit ? 1 : 0;
    }
    hits += own_hits;
  });
  LossSum sum{.loss = 0, .hits = hits};
  for (int64_t i = 0; i < chunk.count; ++i) {
    sum.loss += chunk.losses[i];
  }
  return sum;
}

// dx [T,D] = dlogits [C,V] W [V,D] at the gathered tokens.
void write_input_gradient(const KernelCall& call, const Chunk& chunk) {
  const Tensor& weight = call.inputs[In::w];
  int64_t width = weight.columns();
  Gemm product;
  product.a = {chunk.logits, DType::f32, chunk.count, weight.rows(), weight.rows()};
  product.b = matrix(weight);
  product.c = {chunk.dx, DType::f32, chunk.count, width, width};
  gemm(product, chunk.rest);
  MatrixView dx = matrix(call.outputs[Out::dx]);
  for (int64_t i = 0; i < chunk.count; ++i) {
    store_block(chunk.dx + i * width, width, dx.row_block(chunk.tokens[i], 1));
  }
}

// dW [V,D] = or += dlogits^T [V,C] x [C,D].
void write_weight_gradient(const KernelCall& call, const Chunk& chunk, bool accumulate) {
  const Tensor& weight = call.inputs[In::w];
  Gemm product;
  product.a = {chunk.logits, DType::f32, chunk.count, weight.rows(), weight.rows()};
  product.b = {chunk.x, DType::f32, chunk.count, weight.columns(), weight.columns()};
  product.c = matrix(call.outputs[Out::dw]);
  product.transpose_a = true;
  product.accumulate = accumulate;
  gemm(product, chunk.rest);
}

void clear(const Tensor& tensor) {
  std::fill_n(tensor.as<std::byte>(), tensor.bytes(), std::byte{0});
}

// loss_sum = or += the sum of the losses of all tokens that have a target; hits += how many of them have the
// largest logit of their row.
template <bool kGradient>
void run_chunks(const KernelCall& call) {
  int64_t rows = call.inputs[In::targets].rows();
  int64_t capacity = chunk_rows(call.op, rows, call.inputs[In::w].rows());
  Chunk chunk = take_chunk(call, capacity, kGradient);
  bool accumulate_weight = call.op.accumulates_output(Out::dw);
  LossSum sum;
  for (int64_t row = 0; row < rows;) {
    row = gather(call, row, capacity, chunk);
    if (chunk.count == 0) {
      break;
    }
    LossSum more = chunk_loss<kGradient>(call, chunk);
    sum.loss += more.loss;
    sum.hits += more.hits;
    if (kGradient && call.has_output(Out::dx)) {
      write_input_gradient(call, chunk);
    }
    if (kGradient && call.has_output(Out::dw)) {
      write_weight_gradient(call, chunk, accumulate_weight);
      accumulate_weight = true;
    }
  }
  if (kGradient && call.has_output(Out::dw) && !accumulate_weight) {
    clear(call.outputs[Out::dw]);
  }
  double& loss = *call.outputs[Out::loss_sum].as<double>();
  loss = call.op.accumulates_output(Out::loss_sum) ? loss + sum.loss : sum.loss;
  if (!kGradient && call.has_output(Out::hits)) {
    *call.outputs[Out::hits].as<double>() += static_cast<double>(sum.hits);
  }
}

}  // namespace

void loss_head(const KernelCall& call) {
  run_chunks<false>(call);
}

int64_t loss_head_workspace(const Program& program, const Op& op, int threads) {
  return workspace_of(program, op, false, threads);
}

void loss_head_gradient(const KernelCall& call) {
  if (call.has_output(Out::dx)) {
    clear(call.outputs[Out::dx]);  // tokens without a target keep this zero
  }
  run_chunks<true>(call);
}

int64_t loss_head_gradient_workspace(const Program& program, const Op& op, int threads) {
  return workspace_of(program, op, true, threads);
}

}  // namespace snug::cpu
