// Declarations of what single kinds of ops need on a card. The table in needs.cc is their only user.
#pragma once

#include <string>

#include "program/program.h"

namespace snug::cuda {

// norms.cc
int64_t rms_norm_backward_workspace(const Program& program, const Op& op);
std::string find_unsupported_norm(const Program& program, const Op& op);
int64_t head_norm_backward_workspace(const Program& program, const Op& op);

// products.cc
int64_t product_workspace(const Program& program, const Op& op);
int64_t linear_workspace(const Program& program, const Op& op);
int64_t linear_backward_weight_workspace(const Program& program, const Op& op);
int64_t gated_linear_backward_workspace(const Program& program, const Op& op);
std::string find_unsupported_product(const Program& program, const Op& op);
std::string find_unsupported_gated(const Program& program, const Op& op);
// Of a product with a weight of fp8.
std::string find_unsupported_float8(const Program& program, const Op& op, int capability);

// attention.cc
int64_t attention_backward_workspace(const Program& program, const Op& op);
std::string find_unsupported_attention(const Program& program, const Op& op);

// loss_head.cc
int64_t loss_head_workspace(const Program& program, const Op& op);

// optimizer.cc
int64_t gradient_norm_workspace(const Program& program, const Op& op);
int64_t adafactor_workspace(const Program& program, const Op& op);

}  // namespace snug::cuda
