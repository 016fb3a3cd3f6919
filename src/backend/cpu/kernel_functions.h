// Declarations of the CPU kernels, one function a kind, with the workspace functions of those that need
// scratch memory. The table in kernels.cc is their only user besides benchmarks.
#pragma once

#include "backend/backend.h"

namespace snug::cpu {

// embedding.cc
void embedding(const KernelCall& call);
void embedding_backward(const KernelCall& call);
int64_t embedding_backward_workspace(const Program& program, const Op& op, int threads);

// norm.cc
void rms_norm(const KernelCall& call);
void rms_norm_backward(const KernelCall& call);
int64_t rms_norm_backward_workspace(const Program& program, const Op& op, int threads);
void add_rms_norm(const KernelCall& call);
void head_norm(const KernelCall& call);
void head_norm_backward(const KernelCall& call);
void head_norm_rope(const KernelCall& call);
void head_norm_rope_backward(const KernelCall& call);
int64_t head_norm_backward_workspace(const Program& program, const Op& op, int threads);

// rope.cc
void rope(const KernelCall& call);

// gated_activation.cc
void gated_activation(const KernelCall& call);
void gated_activation_backward(const KernelCall& call);

// gated_linear.cc
void gated_linear(const KernelCall& call);
int64_t gated_linear_workspace(const Program& program, const Op& op, int threads);
void gated_linear_backward(const KernelCall& call);
int64_t gated_linear_backward_workspace(const Program& program, const Op& op, int threads);

// elementwise.cc
void add(const KernelCall& call);
void copy(const KernelCall& call);
void fill(const KernelCall& call);
void select_rows(const KernelCall& call);
void cache_write(const KernelCall& call);

// dropout.cc
void dropout(const KernelCall& call);

// optimizer.cc
void gradient_norm(const KernelCall& call);
int64_t gradient_norm_workspace(const Program& program, const Op& op, int threads);
void adamw(const KernelCall& call);
void adamw_8bit(const KernelCall& call);
int64_t adafactor_workspace(const Program& program, const Op& op, int threads);
void adafactor(const KernelCall& call);

// step_clock.cc
void scale_loss(const KernelCall& call);
void close_step(const KernelCall& call);

// linear.cc
void linear(const KernelCall& call);
int64_t linear_workspace(const Program& program, const Op& op, int threads);
void linear_backward_input(const KernelCall& call);
int64_t linear_backward_input_workspace(const Program& program, const Op& op, int threads);
void linear_backward_weight(const KernelCall& call);
int64_t linear_backward_weight_workspace(const Program& program, const Op& op, int threads);

// lora.cc
void lora_up(const KernelCall& call);
int64_t lora_up_workspace(const Program& program, const Op& op, int threads);
void lora_up_backward(const KernelCall& call);
int64_t lora_up_backward_workspace(const Program& program, const Op& op, int threads);

// attention.cc
void attention(const KernelCall& call);
int64_t attention_workspace(const Program& program, const Op& op, int threads);

// attention_backward.cc
void attention_backward(const KernelCall& call);
int64_t attention_backward_workspace(const Program& program, const Op& op, int threads);

// loss_head.cc
void loss_head(const KernelCall& call);
int64_t loss_head_workspace(const Program& program, const Op& op, int threads);
void loss_head_gradient(const KernelCall& call);
int64_t loss_head_gradient_workspace(const Program& program, const Op& op, int threads);

}  // namespace snug::cpu
