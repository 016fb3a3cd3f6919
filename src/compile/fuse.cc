// Fusion of residual addition and norm, of a gated activation with its gradient, and of an adapter's
// gradients.
#include "compile/fuse.h"

#include <algorithm>
#include <set>

#include "program/operands.h"

namespace snug {
namespace {

bool is_norm_of_sum(const Op& add, const Op& norm) {
  return add.kind == OpKind::add && norm.kind == OpKind::rms_norm && norm.inputs[0] == add.outputs[0] &&
         add.is_backward == norm.is_backward;
}

using Ops = std::vector<Op>;

bool uses_any(const std::vector<BufferId>& operands, const std::set<BufferId>& buffers) {
  return std::any_of(operands.begin(), operands.end(),
                     [&](BufferId id) { return id != kNoBuffer && buffers.contains(id); });
}

// Puts `first` and the ops of [first, last) that need what it makes behind the others of them, and returns
// where it is then; or `last`, and moves nothing, where the others or the op at `last` would not find what
// they found before.
Ops::iterator put_off(Ops::iterator first, Ops::iterator last) {
  std::set<BufferId> late(first->outputs.begin(), first->outputs.end());
  std::set<BufferId> read_late;
  Ops soon;
  Ops waiting = {*first};
  for (auto op = first + 1; op != last; ++op) {
    if (uses_any(op->inputs, late)) {
      late.insert(op->outputs.begin(), op->outputs.end());
      read_late.insert(op->inputs.begin(), op->inputs.end());
      waiting.push_back(*op);
    } else if (uses_any(op->outputs, late) || uses_any(op->outputs, read_late)) {
      return last;
    } else {
      soon.push_back(*op);
    }
  }
  if (uses_any(last->inputs, late) || uses_any(last->outputs, late) || uses_any(last->outputs, read_late)) {
    return last;
  }
  auto behind = std::move(soon.begin(), soon.end(), first);
  std::move(waiting.begin(), waiting.end(), behind);
  return behind;
}

// Whether the op there was a gated activation made again, and is made by its gradient now.
bool make_with_gradient(Ops& ops, size_t index) {
  auto again = ops.begin() + static_cast<std::ptrdiff_t>(index);
  if (again->kind != OpKind::gated_activation || !again->is_backward) {
    return false;
  }
  auto gradient = std::find_if(again, ops.end(), [&](const Op& op) {
    return op.kind == OpKind::gated_activation_backward && op.inputs[0] == again->inputs[0];
  });
  auto moved = gradient != ops.end() ? put_off(again, gradient) : gradient;
  if (moved == gradient) {
    return false;
  }
  gradient->outputs.push_back(moved->outputs[0]);
  gradient->name += " + " + moved->name;
  std::rotate(moved, gradient, gradient + 1);
  ops.erase(moved + 1);  // the activation: its gradient stands in its place
  return true;
}

// Whether `next` makes the down product's gradient of the adapter whose dB `op` makes, and nothing else.
bool is_other_gradient(const Op& op, const Op& next) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  return op.kind == OpKind::lora_up_backward && next.kind == op.kind && op.name == next.name &&
         op.inputs[In::dy] == next.inputs[In::dy] && !op.has_output(Out::ddown) &&
         !next.has_output(Out::db) && attributes_of<LoraAttributes>(op).rank <= kSmallRank;
}

// Whether the op is a product of plain 16-bit numbers without a bias: what a backend can join.
bool is_plain_product(const Program& program, const Op& op, OpKind kind) {
  if (op.kind != kind || op.has_input(2)) {
    return false;
  }
  const Format& weight = program.buffer(op.inputs[1]).format;
  return !weight.is_coded() && size_of(weight.dtype) == 2 && weight == program.buffer(op.inputs[0]).format;
}

bool is_gate_of(const Program& program, const Op& product, const Op& gate) {
  return gate.kind == OpKind::gated_activation && is_plain_product(program, product, OpKind::linear) &&
         gate.inputs[0] == product.outputs[0] && gate.accumulates == 0 &&
         gate.is_backward == product.is_backward;
}

bool is_gate_gradient_of(const Program& program, const Op& product, const Op& gate) {
  return gate.kind == OpKind::gated_activation_backward &&
         is_plain_product(program, product, OpKind::linear_backward_input) &&
         gate.inputs[1] == product.outputs[0] && gate.accumulates == 0;
}

void join_gate(Op& product, Op& gate) {
  product.kind = OpKind::gated_linear;
  product.attributes =
      GatedLinearAttributes{attributes_of<LinearAttributes>(product), attributes_of<GateAttributes>(gate)};
  product.outputs.push_back(gate.outputs[0]);
  product.name += " + " + gate.name;
}

// Where the product only writes, what it writes is no buffer any more.
void join_gate_gradient(Op& product, Op& gate) {
  BufferId dgated = product.accumulates_output(0) ? product.outputs[0] : kNoBuffer;
  product.kind = OpKind::gated_linear_backward;
  product.attributes =
      GatedLinearAttributes{attributes_of<LinearAttributes>(product), attributes_of<GateAttributes>(gate)};
  product.inputs = {gate.inputs[0], dgated, product.inputs[0], product.inputs[1]};
  product.outputs = std::move(gate.outputs);
  product.accumulates = 0;
  product.name += " + " + gate.name;
}

}  // namespace

Program fuse_gated_products(Program program) {
  std::vector<Op> fused;
  fused.reserve(program.ops.size());
  for (Op& op : program.ops) {
    if (!fused.empty() && is_gate_of(program, fused.back(), op)) {
      join_gate(fused.back(), op);
    } else if (!fused.empty() && is_gate_gradient_of(program, fused.back(), op)) {
      join_gate_gradient(fused.back(), op);
    } else {
      fused.push_back(std::move(op));
    }
  }
  program.ops = std::move(fused);
  return program;
}

Program fuse_additions(Program program) {
  std::vector<Op> fused;
  fused.reserve(program.ops.size());
  for (Op& op : program.ops) {
    if (fused.empty() || !is_norm_of_sum(fused.back(), op)) {
      fused.push_back(std::move(op));
      continue;
    }
    Op& add = fused.back();
    add.kind = OpKind::add_rms_norm;
    add.inputs.push_back(op.inputs[1]);
    add.outputs.push_back(op.outputs[0]);
    add.attributes = op.attributes;
    add.name += " + " + op.name;
  }
  program.ops = std::move(fused);
  return program;
}

Program fuse_adapter_gradients(Program program) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  std::vector<Op> fused;
  fused.reserve(program.ops.size());
  for (Op& op : program.ops) {
    if (fused.empty() || !is_other_gradient(fused.back(), op)) {
      fused.push_back(std::move(op));
      continue;
    }
    Op& both = fused.back();
    both.inputs[In::b] = op.inputs[In::b];
    both.outputs[Out::ddown] = op.outputs[Out::ddown];
    both.accumulates |= op.accumulates;
    both.begins |= op.begins;
  }
  program.ops = std::move(fused);
  return program;
}

Program fuse_gates_made_again(Program program) {
  for (size_t index = 0; index < program.ops.size(); ++index) {
    while (make_with_gradient(program.ops, index)) {
    }
  }
  return program;
}

}  // namespace snug
