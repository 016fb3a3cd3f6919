// The table of CUDA kernels.
#include "backend/cuda/kernels.h"

#include "backend/cuda/kernel_functions.h"
#include "backend/kernel_rows.h"

namespace snug::cuda {
namespace {

constexpr KernelRows<Kernel> kRows = {{
    {OpKind::embedding, embedding},
    {OpKind::embedding_backward, embedding_backward},
    {OpKind::rms_norm, rms_norm},
    {OpKind::rms_norm_backward, rms_norm_backward},
    {OpKind::add_rms_norm, add_rms_norm},
    {OpKind::head_norm, head_norm},
    {OpKind::head_norm_backward, head_norm_backward},
    {OpKind::head_norm_rope, head_norm_rope},
    {OpKind::head_norm_rope_backward, head_norm_rope_backward},
    {OpKind::linear, linear},
    {OpKind::linear_backward_input, linear_backward_input},
    {OpKind::linear_backward_weight, linear_backward_weight},
    {OpKind::lora_up, lora_up},
    {OpKind::lora_up_backward, lora_up_backward},
    {OpKind::rope, rope},
    {OpKind::attention, attention},
    {OpKind::attention_backward, attention_backward},
    {OpKind::gated_activation, gated_activation},
    {OpKind::gated_activation_backward, gated_activation_backward},
    {OpKind::gated_linear, gated_linear},
    {OpKind::gated_linear_backward, gated_linear_backward},
    {OpKind::add, add},
    {OpKind::dropout, dropout},
    {OpKind::loss_head, loss_head},
    {OpKind::loss_head_gradient, loss_head_gradient},
    {OpKind::select_rows, select_rows},
    {OpKind::cache_write, cache_write},
    {OpKind::copy, copy},
    {OpKind::fill, fill},
    {OpKind::scale_loss, scale_loss},
    {OpKind::gradient_norm, gradient_norm},
    {OpKind::close_step, close_step},
    {OpKind::adamw, adamw},
    {OpKind::adamw_8bit, adamw_8bit},
    {OpKind::adafactor, adafactor},
}};

static_assert(rows_follow_the_kinds(kRows), "one row a kind, in the order of OpKind");

constexpr bool every_kind_has_a_kernel() {
  for (const auto& row : kRows) {
    if (row.kernel == nullptr) {
      return false;
    }
  }
  return true;
}
static_assert(every_kind_has_a_kernel(), "a plan for a card relies on it");

}  // namespace

Kernel kernel_of(OpKind kind) {
  return kRows[static_cast<size_t>(kind)].kernel;
}

}  // namespace snug::cuda
