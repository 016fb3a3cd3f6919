// loss_head and loss_head_gradient: the output product, log-softmax and cross-entropy, a chunk of rows at a
// time, so that the logits of the whole batch never exist. Where there are fewer rows than tokens, those of a
// chunk are gathered first, and their gradients scattered; else a chunk is some rows of x and dx themselves.
#include <algorithm>

#include "backend/cuda/blas.h"
#include "backend/cuda/check.h"
#include "backend/cuda/gathered_rows.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/softmax_loss.h"
#include "backend/cuda_plan/loss_chunks.h"
#include "backend/cuda_plan/scratch.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

using In = LossHeadInput;
using Out = LossHeadOutput;

struct Chunk {
  int64_t first = 0;  // of the head's rows
  LogitsChunk logits;
  Matrix x;                     // [C,D]: of its rows
  void* some = nullptr;         // [C,D]: what of x, and then of dx, is gathered; null: nothing has to be
  GatheredRows tokens = {};     // which rows those are
  std::span<std::byte> rest{};  // for the products

  Matrix logits_matrix() const {
    return {logits.logits, logits.dtype, logits.rows, logits.vocabulary, logits.stride};
  }
};

// x of the chunk's rows, and their logits.
void make_logits(const Queue& queue, const KernelCall& call, Chunk& chunk) {
  const Tensor& x = call.inputs[In::x];
  if (chunk.some == nullptr) {
    chunk.x = matrix(x).row_block(chunk.first, chunk.logits.rows);
  } else {
    chunk.tokens = {.tokens = call.inputs[In::rows].as<int32_t>() + chunk.first,
                    .count = chunk.logits.rows,
                    .all_tokens = x.rows(),
                    .width = x.columns(),
                    .dtype = x.dtype};
    chunk.x = {chunk.some, x.dtype, chunk.logits.rows, x.columns(), x.columns()};
    gather_rows(queue.stream, chunk.tokens, x.data, chunk.some);
  }
  Gemm product;
  product.a = chunk.x;
  product.b = matrix(call.inputs[In::w]);
  product.c = chunk.logits_matrix();
  product.transpose_b = true;
  queue.blas->run(product, chunk.rest, queue.stream);
}

// dW [V,D] = or += dlogits^T [V,C] x [C,D], and then dx [its rows, D] = dlogits [C,V] W [V,D], for which what
// is gathered of x makes room.
void spread_gradient(const Queue& queue, const KernelCall& call, const Chunk& chunk) {
  if (call.has_output(Out::dw)) {
    Gemm product;
    product.a = chunk.logits_matrix();
    product.b = chunk.x;
    product.c = matrix(call.outputs[Out::dw]);
    product.transpose_a = true;
    product.accumulate = call.op.accumulates_output(Out::dw) || chunk.first > 0;
    queue.blas->run(product, chunk.rest, queue.stream);
  }
  if (call.has_output(Out::dx)) {
    const Tensor& dx = call.outputs[Out::dx];
    Gemm product;
    product.a = chunk.logits_matrix();
    product.b = matrix(call.inputs[In::w]);
    product.c = chunk.some == nullptr ? matrix(dx).row_block(chunk.first, chunk.logits.rows) : chunk.x;
    queue.blas->run(product, chunk.rest, queue.stream);
    if (chunk.some != nullptr) {
      scatter_rows(queue.stream, chunk.tokens, chunk.some, dx.data);
    }
  }
}

void run_chunks(const Queue& queue, const KernelCall& call, bool with_gradient) {
  const Tensor& x = call.inputs[In::x];
  const Tensor& targets = call.inputs[In::targets];
  int64_t rows = targets.rows();
  SNUG_CHECK(rows > 0 && rows <= x.rows(), "the loss looks at one token at least, and at no more than all");
  Chunk chunk;
  LogitsChunk& logits = chunk.logits;
  logits.vocabulary = call.inputs[In::w].rows();
  logits.dtype = logits_dtype(call.op, x.dtype);
  logits.stride = logits_stride(logits.vocabulary);
  int64_t capacity = chunk_rows(call.op, rows, logits.vocabulary, logits.dtype);
  Scratch scratch(call.workspace);
  logits.logits = scratch.take<std::byte>(capacity * logits.stride * size_of(logits.dtype));
  double* losses = scratch.take<double>(rows);
  if (rows < x.rows()) {
    chunk.some = scratch.take<std::byte>(capacity * x.columns() * size_of(x.dtype));
    if (with_gradient && call.has_output(Out::dx)) {  // tokens without a target keep this zero
      const Tensor& dx = call.outputs[Out::dx];
      check(cudaMemsetAsync(dx.data, 0, static_cast<size_t>(dx.bytes()), queue.stream), "clearing gradients");
    }
  }
  chunk.rest = scratch.rest();
  if (!with_gradient && call.has_output(Out::hits)) {
    logits.hits = call.outputs[Out::hits].as<double>();
  }
  for (chunk.first = 0; chunk.first < rows; chunk.first += capacity) {
    logits.rows = std::min(capacity, rows - chunk.first);
    logits.targets = targets.as<int32_t>() + chunk.first;
    logits.losses = losses + chunk.first;
    make_logits(queue, call, chunk);
    if (with_gradient) {
      softmax_loss_gradient(queue.stream, logits, call.inputs[In::scale].as<float>());
      spread_gradient(queue, call, chunk);
    } else {
      softmax_loss(queue.stream, logits);
    }
  }
  sum_losses(queue.stream, losses, rows, call.outputs[Out::loss_sum].as<double>(),
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
