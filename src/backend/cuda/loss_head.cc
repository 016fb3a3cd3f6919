// loss_head and loss_head_gradient: the output product, log-softmax and cross-entropy, a chunk of tokens at a
// time, so that the logits of the whole batch never exist. Logits are fp32; their gradient has the dtype of
// x.
#include <algorithm>

#include "backend/cuda/blas.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/softmax_loss.h"
#include "backend/cuda_plan/loss_chunks.h"
#include "backend/cuda_plan/scratch.h"

namespace snug::cuda {
namespace {

bool wants(const KernelCall& call, size_t output) {
  return call.outputs.size() > output && call.outputs[output].data != nullptr;
}

// Logits of rows [first, first + chunk.rows) of x.
void make_logits(const Queue& queue, const KernelCall& call, int64_t first, const LogitsChunk& chunk,
                 std::span<std::byte> workspace) {
  Gemm product;
  product.a = matrix(call.inputs[0]).row_block(first, chunk.rows);
  product.b = matrix(call.inputs[1]);
  product.c = {chunk.logits, DType::f32, chunk.rows, chunk.vocabulary, chunk.stride};
  product.transpose_b = true;
  queue.blas->run(product, workspace, queue.stream);
}

// dx [its rows, D] = dlogits [C,V] W [V,D], and dW [V,D] = or += dlogits^T [V,C] x [C,D].
void spread_gradient(const Queue& queue, const KernelCall& call, int64_t first, const LogitsChunk& chunk,
                     std::span<std::byte> workspace) {
  DType dtype = call.inputs[0].dtype;
  int64_t stride = chunk.stride * static_cast<int64_t>(sizeof(float)) / size_of(dtype);
  Matrix gradient = {chunk.logits, dtype, chunk.rows, chunk.vocabulary, stride};
  if (wants(call, 1)) {
    Gemm product;
    product.a = gradient;
    product.b = matrix(call.inputs[1]);
    product.c = matrix(call.outputs[1]).row_block(first, chunk.rows);
    queue.blas->run(product, workspace, queue.stream);
  }
  if (wants(call, 2)) {
    Gemm product;
    product.a = gradient;
    product.b = matrix(call.inputs[0]).row_block(first, chunk.rows);
    product.c = matrix(call.outputs[2]);
    product.transpose_a = true;
    product.accumulate = call.op.accumulates_output(2) || first > 0;
    queue.blas->run(product, workspace, queue.stream);
  }
}

void run_chunks(const Queue& queue, const KernelCall& call, bool with_gradient) {
  const Tensor& x = call.inputs[0];
  int64_t tokens = x.rows();
  SNUG_CHECK(tokens > 0, "a loss of no tokens");
  LogitsChunk chunk;
  chunk.vocabulary = call.inputs[1].rows();
  int64_t capacity = chunk_rows(call.op, tokens, chunk.vocabulary);
  chunk.stride = logits_stride(chunk.vocabulary);
  Scratch scratch(call.workspace);
  chunk.logits = scratch.take<float>(capacity * chunk.stride);
  double* losses = scratch.take<double>(tokens);
  for (int64_t first = 0; first < tokens; first += capacity) {
    chunk.rows = std::min(capacity, tokens - first);
    chunk.targets = call.inputs[2].as<int32_t>() + first;
    chunk.losses = losses + first;
    make_logits(queue, call, first, chunk, scratch.rest());
    if (with_gradient) {
      softmax_loss_gradient(queue.stream, chunk, call.inputs[3].as<float>(), x.dtype);
      spread_gradient(queue, call, first, chunk, scratch.rest());
    } else {
      softmax_loss(queue.stream, chunk);
    }
  }
  sum_losses(queue.stream, losses, tokens, call.outputs[0].as<double>(), call.op.accumulates_output(0));
}

}  // namespace

void loss_head(const Queue& queue, const KernelCall& call) {
  run_chunks(queue, call, false);
}

void loss_head_gradient(const Queue& queue, const KernelCall& call) {
  run_chunks(queue, call, true);
}

}  // namespace snug::cuda
