// Cross-entropy of a chunk of logits, and its gradient in their place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"

namespace snug::cuda {

struct LogitsChunk {
  void* logits = nullptr;  // [rows, stride]
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t vocabulary = 0;
  int64_t stride = 0;                // a multiple of 8
  const int32_t* targets = nullptr;  // [rows]; negative: this row has none, its loss and gradient are 0
  double* losses = nullptr;          // [rows] =
  double* hits = nullptr;  // [1] +=, if wanted: targets that are the first of the largest logits of their row
};

// losses = log-sum-exp minus the target's logit.
void softmax_loss(cudaStream_t stream, const LogitsChunk& chunk);

// The same, and leaves (softmax - onehot) * scale[0] in the logits' place.
void softmax_loss_gradient(cudaStream_t stream, const LogitsChunk& chunk, const float* scale);

// loss[0] = or += the sum of losses [count], in a fixed order.
void sum_losses(cudaStream_t stream, const double* losses, int64_t count, double* loss, bool accumulate);

}  // namespace snug::cuda
