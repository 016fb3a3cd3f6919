// The table of needs. Every kind has a CUDA kernel (backend/cuda/kernels.cc holds it to that).
#include "backend/cuda_plan/needs.h"

#include "backend/cuda_plan/need_functions.h"
#include "backend/kernel_rows.h"

namespace snug::cuda {
namespace {

struct Needs {
  // Null: needs none.
  int64_t (*workspace_bytes)(const Program&, const Op&) = nullptr;
  // Beyond the dtypes that all kernels share: "" or what is missing. Null: nothing to add.
  std::string (*find_unsupported)(const Program&, const Op&) = nullptr;
};

constexpr Needs kProduct = {product_workspace, find_unsupported_product};
constexpr Needs kWeightProduct = {linear_workspace, find_unsupported_product};

constexpr KernelRows<Needs> kRows = {{
    {OpKind::embedding, {}},
    {OpKind::embedding_backward, {}},
    {OpKind::rms_norm, {}},
    {OpKind::rms_norm_backward, {rms_norm_backward_workspace, find_unsupported_norm}},
    {OpKind::add_rms_norm, {}},
    {OpKind::head_norm, {}},
    {OpKind::head_norm_backward, {head_norm_backward_workspace}},
    {OpKind::head_norm_rope, {}},
    {OpKind::head_norm_rope_backward, {head_norm_backward_workspace}},
    {OpKind::linear, kWeightProduct},
    {OpKind::linear_backward_input, kWeightProduct},
    {OpKind::linear_backward_weight, {linear_backward_weight_workspace, find_unsupported_product}},
    {OpKind::lora_up, kProduct},
    {OpKind::lora_up_backward, kProduct},
    {OpKind::rope, {}},
    {OpKind::attention, {nullptr, find_unsupported_attention}},
    {OpKind::attention_backward, {attention_backward_workspace, find_unsupported_attention}},
    {OpKind::gated_activation, {}},
    {OpKind::gated_activation_backward, {}},
    {OpKind::gated_linear, {product_workspace, find_unsupported_gated}},
    {OpKind::gated_linear_backward, {gated_linear_backward_workspace, find_unsupported_gated}},
    {OpKind::add, {}},
    {OpKind::dropout, {}},
    {OpKind::loss_head, {loss_head_workspace, find_unsupported_product}},
    {OpKind::loss_head_gradient, {loss_head_workspace, find_unsupported_product}},
    {OpKind::select_rows, {}},
    {OpKind::cache_write, {}},
    {OpKind::copy, {}},
    {OpKind::fill, {}},
    {OpKind::scale_loss, {}},
    {OpKind::gradient_norm, {gradient_norm_workspace}},
    {OpKind::close_step, {}},
    {OpKind::adamw, {}},
    {OpKind::adamw_8bit, {}},
    {OpKind::adafactor, {adafactor_workspace}},
}};

static_assert(rows_follow_the_kinds(kRows), "one row a kind, in the order of OpKind");

const Needs& needs_of(OpKind kind) {
  return kRows[static_cast<size_t>(kind)].kernel;
}

}  // namespace

std::string find_unsupported(const Program& program, const Op& op, int capability) {
  const Needs& needs = needs_of(op.kind);
  std::string problem = needs.find_unsupported == nullptr ? "" : needs.find_unsupported(program, op);
  bool is_fp8 = op.has_input(1) && program.buffer(op.inputs[1]).format.coding == Coding::fp8;
  return problem.empty() && is_fp8 ? find_unsupported_float8(program, op, capability) : problem;
}

int64_t workspace_bytes(const Program& program, const Op& op) {
  const Needs& needs = needs_of(op.kind);
  return needs.workspace_bytes == nullptr ? 0 : needs.workspace_bytes(program, op);
}

}  // namespace snug::cuda
