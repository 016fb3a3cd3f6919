// The table of CPU kernels.
#include "backend/cpu/kernels.h"

#include "backend/cpu/kernel_functions.h"
#include "backend/kernel_rows.h"

namespace snug::cpu {
namespace {

constexpr KernelRows<Kernel> kRows = {{
    {OpKind::embedding, {embedding}},
    {OpKind::embedding_backward, {embedding_backward, embedding_backward_workspace}},
    {OpKind::rms_norm, {rms_norm}},
    {OpKind::rms_norm_backward, {rms_norm_backward, rms_norm_backward_workspace}},
    {OpKind::add_rms_norm, {add_rms_norm}},
    {OpKind::head_norm, {head_norm}},
    {OpKind::head_norm_backward, {head_norm_backward, head_norm_backward_workspace}},
    {OpKind::head_norm_rope, {head_norm_rope}},
    {OpKind::head_norm_rope_backward, {head_norm_rope_backward, head_norm_backward_workspace}},
    {OpKind::linear, {linear, linear_workspace}},
    {OpKind::linear_backward_input, {linear_backward_input, linear_backward_input_workspace}},
    {OpKind::linear_backward_weight, {linear_backward_weight, linear_backward_weight_workspace}},
    {OpKind::lora_up, {lora_up, lora_up_workspace}},
    {OpKind::lora_up_backward, {lora_up_backward, lora_up_backward_workspace}},
    {OpKind::rope, {rope}},
    {OpKind::attention, {attention, attention_workspace}},
    {OpKind::attention_backward, {attention_backward, attention_backward_workspace}},
    {OpKind::gated_activation, {gated_activation}},
    {OpKind::gated_activation_backward, {gated_activation_backward}},
    {OpKind::gated_linear, {gated_linear, gated_linear_workspace}},
    {OpKind::gated_linear_backward, {gated_linear_backward, gated_linear_backward_workspace}},
    {OpKind::add, {add}},
    {OpKind::dropout, {dropout}},
    {OpKind::loss_head, {loss_head, loss_head_workspace}},
    {OpKind::loss_head_gradient, {loss_head_gradient, loss_head_gradient_workspace}},
    {OpKind::select_rows, {select_rows}},
    {OpKind::cache_write, {cache_write}},
    {OpKind::copy, {copy}},
    {OpKind::fill, {fill}},
    {OpKind::scale_loss, {scale_loss}},
    {OpKind::gradient_norm, {gradient_norm, gradient_norm_workspace}},
    {OpKind::close_step, {close_step}},
    {OpKind::adamw, {adamw}},
    {OpKind::adamw_8bit, {adamw_8bit}},
    {OpKind::adafactor, {adafactor, adafactor_workspace}},
}};

static_assert(rows_follow_the_kinds(kRows), "one row a kind, in the order of OpKind");

}  // namespace

const Kernel& kernel_of(OpKind kind) {
  return kRows[static_cast<size_t>(kind)].kernel;
}

}  // namespace snug::cpu
