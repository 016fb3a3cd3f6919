// Declarations of the CUDA kernels' launchers, one function a kind. The table in kernels.cc is their only
// user besides benchmarks.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/kernels.h"

namespace snug::cuda {

// embedding.cu
void embedding(const Queue& queue, const KernelCall& call);
void embedding_backward(const Queue& queue, const KernelCall& call);

// norm.cu
void rms_norm(const Queue& queue, const KernelCall& call);
void add_rms_norm(const Queue& queue, const KernelCall& call);
void rms_norm_backward(const Queue& queue, const KernelCall& call);

// head_norm.cu
void head_norm(const Queue& queue, const KernelCall& call);
void head_norm_backward(const Queue& queue, const KernelCall& call);
void head_norm_rope(const Queue& queue, const KernelCall& call);
void head_norm_rope_backward(const Queue& queue, const KernelCall& call);

// rope.cu
void rope(const Queue& queue, const KernelCall& call);

// gated_activation.cu
void gated_activation(const Queue& queue, const KernelCall& call);
void gated_activation_backward(const Queue& queue, const KernelCall& call);

// gated_linear.cc
void gated_linear(const Queue& queue, const KernelCall& call);
void gated_linear_backward(const Queue& queue, const KernelCall& call);

// elementwise.cu
void add(const Queue& queue, const KernelCall& call);
void copy(const Queue& queue, const KernelCall& call);
void fill(const Queue& queue, const KernelCall& call);

// row_moves.cu
void select_rows(const Queue& queue, const KernelCall& call);
void cache_write(const Queue& queue, const KernelCall& call);

// dropout.cu
void dropout(const Queue& queue, const KernelCall& call);

// optimizer.cu
void gradient_norm(const Queue& queue, const KernelCall& call);
void adamw(const Queue& queue, const KernelCall& call);
void adamw_8bit(const Queue& queue, const KernelCall& call);
void adafactor(const Queue& queue, const KernelCall& call);

// step_clock.cu
void scale_loss(const Queue& queue, const KernelCall& call);
void close_step(const Queue& queue, const KernelCall& call);

// linear.cc
void linear(const Queue& queue, const KernelCall& call);
void linear_backward_input(const Queue& queue, const KernelCall& call);
void linear_backward_weight(const Queue& queue, const KernelCall& call);

// lora.cc
void lora_up(const Queue& queue, const KernelCall& call);
void lora_up_backward(const Queue& queue, const KernelCall& call);

// attention.cc
void attention(const Queue& queue, const KernelCall& call);
void attention_backward(const Queue& queue, const KernelCall& call);

// loss_head.cc
void loss_head(const Queue& queue, const KernelCall& call);
void loss_head_gradient(const Queue& queue, const KernelCall& call);

}  // namespace snug::cuda
