// loss_head and loss_head_gradient: the output product, log-softmax and cross-entropy, a chunk of tokens at a
// time, so that the logits of the whole batch never exist.
#include <algorithm>

#include "backend/cuda/blas.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/softmax_loss.h"
#include "backend/cuda_plan/loss_chunks.h"
#include "backend/cuda_plan/scratch.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

using In = LossHeadInput;
using Out = LossHeadOutput;

// Logits of rows [first, first + chunk.rows) of x.
void make_logits(const Queue& queue, const KernelCall& call, int64_t first, const LogitsChunk& chunk,
                 std::span<std::byte> workspace) {
  Gemm product;
  product.a = matrix(call.inputs[In::x]).row_block(first, chunk.rows);
  product.b = matrix(call.inputs[In::w]);
  product.c = {chunk.logits, chunk.dtype, chunk.rows, chunk.vocabulary, chunk.stride};
  product.transpose_b = true;
  queue.blas->run(product, workspace, queue.stream);
}

// dx [its rows, D] = dlogits [C,V] W [V,D], and dW [V,D] = or += dlogits^T [V,C] x [C,D].
void spread_gradient(const Queue& queue, const KernelCall& call, int64_t first, const LogitsChunk& chunk,
                     std::span<std::byte> workspace) {
  Matrix gradient = {chunk.logits, chunk.dtype, chunk.rows, chunk.vocabulary, chunk.stride};
  if (call.has_output(Out::dx)) {
    Gemm product;
    product.a = gradient;
    product.b = matrix(call.inputs[In::w]);
    product.c = matrix(call.outputs[Out::dx]).row_block(first, chunk.rows);
    queue.blas->run(product, workspace, queue.stream);
  }
  if (call.has_output(Out::dw)) {
    Gemm product;
    product.a = gradient;
    product.b = matrix(call.inputs[In::x]).row_block(first, chunk.rows);
    product.c = matrix(call.outputs[Out::dw]);
    product.transpose_a = true;
    product.accumulate = call.op.accumulates_output(Out::dw) || first > 0;
    queue.blas->run(product, workspace, queue.stream);
  }
}

void run_chunks(const Queue& queue, const KernelCall& call, bool with_gradient) {
  const Tensor& x = call.inputs[In::x];
  int64_t tokens = x.rows();
  SNUG_CHECK(tokens > 0, "a loss of no tokens");
  LogitsChunk chunk;
  chunk.vocabulary = call.inputs[In::w].rows();
  chunk.dtype = logits_dtype(call.op, x.dtype);
  int64_t capacity = chunk_rows(call.op, tokens, chunk.vocabulary, chunk.dtype);
  chunk.stride = logits_stride(chunk.vocabulary);
  Scratch scratch(call.workspace);
  chunk.logits = scratch.take<std::byte>(capacity * chunk.stride * size_of(chunk.dtype));
  double* losses = scratch.take<double>(tokens);
  if (!with_gradient && call.has_output(Out::hits)) {
    chunk.hits = call.outputs[Out::hits].as<double>();
  }
  for (int64_t first = 0; first < tokens; first += capacity) {
    chunk.rows = std::min(capacity, tokens - first);
    chunk.targets = call.inputs[In::targets].as<int32_t>() + first;
    chunk.losses = losses + first;
    make_logits(queue, call, first, chunk, scratch.rest());
    if (with_gradient) {
      softmax_loss_gradient(queue.stream, chunk, call.inputs[In::scale].as<float>());
      spread_gradient(queue, call, first, chunk, scratch.rest());
    } else {
      softmax_loss(queue.stream, chunk);
    }
  }
  sum_losses(queue.stream, losses, tokens, call.outputs[Out::loss_sum].as<double>(),
             call.op.accumulates_output(Out::loss_sum));
}

}  // namespace

void loss_head(const Queue& queue, const KernelCall& call) {
  run_chunks(queue, call, false);
}

void loss_head_gradient(const Queue& queue, const KernelCall& call) {
  run_chunks(queue, call, true);
}

}  // namespace snug::cuda
