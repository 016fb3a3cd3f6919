// Joining products with the gated activations behind them.
#include "compile/fuse.h"
#include "program/operands.h"

namespace snug {
namespace {

// Whether the op is a product of plain 16-bit numbers without a bias: what a backend can join.
bool is_plain_product(const Program& program, const Op& op, OpKind kind) {
  if (op.kind != kind || op.has_input(2)) {
    return false;
  }
  const Format& weight = program.buffer(op.inputs[1]).format;
  return !weight.is_coded() && size_of(weight.dtype) == 2 && weight == program.buffer(op.inputs[0]).format;
}

bool is_gate_gradient_of(const Program& program, const Op& product, const Op& gate) {
  return gate.kind == OpKind::gated_activation_backward &&
         is_plain_product(program, product, OpKind::linear_backward_input) &&
         gate.inputs[1] == product.outputs[0] && gate.accumulates == 0;
}

GatedLinearAttributes attributes_of_both(const Op& product, const Op& gate) {
  return {attributes_of<LinearAttributes>(product), attributes_of<GateAttributes>(gate)};
}

void join_gate(Op& product, const Op& gate) {
  product.kind = OpKind::gated_linear;
  product.attributes = attributes_of_both(product, gate);
  product.outputs.push_back(gate.outputs[0]);
  product.name += " + " + gate.name;
}

void join_gate_gradient(Op& product, Op& gate) {
  BufferId dgated = product.accumulates_output(0) ? product.outputs[0] : kNoBuffer;
  product.kind = OpKind::gated_linear_backward;
  product.attributes = attributes_of_both(product, gate);
  product.inputs = {gate.inputs[0], dgated, product.inputs[0], product.inputs[1]};
  product.outputs = std::move(gate.outputs);
  product.accumulates = 0;
  product.name += " + " + gate.name;
}

}  // namespace

bool takes_gate(const Program& program, const Op& product, const Op& gate) {
  return gate.kind == OpKind::gated_activation && is_plain_product(program, product, OpKind::linear) &&
         product.accumulates == 0 && gate.inputs[0] == product.outputs[0] && gate.accumulates == 0 &&
         gate.is_backward == product.is_backward;
}

Program fuse_gated_products(Program program) {
  std::vector<Op> fused;
  fused.reserve(program.ops.size());
  std::vector<BufferId> gone;  // gradients of activations that nothing but the two ops has to do with
  for (Op& op : program.ops) {
    if (!fused.empty() && takes_gate(program, fused.back(), op)) {
      join_gate(fused.back(), op);
    } else if (!fused.empty() && is_gate_gradient_of(program, fused.back(), op)) {
      if (!fused.back().accumulates_output(0)) {
        gone.push_back(fused.back().outputs[0]);
      }
      join_gate_gradient(fused.back(), op);
    } else {
      fused.push_back(std::move(op));
    }
  }
  program.ops = std::move(fused);
  if (!gone.empty()) {
    program.remove_buffers(gone);
  }
  return program;
}

}  // namespace snug
