// Joining products with the adapters' shares before them and the gated activations behind them.
#include <algorithm>
#include <iterator>
#include <map>

#include "compile/fuse.h"
#include "ops/adapted_linear.h"
#include "program/operands.h"

namespace snug {
namespace {

// Whether the op is a product of plain 16-bit numbers without a bias: what a backend can join.
bool is_plain_product(const Program& program, const Op& op, OpKind kind) {
  if (op.kind != kind || (kind == OpKind::linear && op.has_input(LinearInput::bias))) {
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

bool has(const std::vector<BufferId>& operands, BufferId id) {
  return std::find(operands.begin(), operands.end(), id) != operands.end();
}

// Whether ops may change places: neither changes what the other has to do with.
bool are_apart(const Op& one, const Op& other) {
  auto touches = [](const Op& op, const Op& changing) {
    return std::any_of(changing.outputs.begin(), changing.outputs.end(), [&](BufferId id) {
      return id != kNoBuffer && (has(op.inputs, id) || has(op.outputs, id));
    });
  };
  return !touches(one, other) && !touches(other, one);
}

// What is made again is made as late as possible, and so gate and up may stand between the product that makes
// the activation's gradient and what reads it: the product comes behind them.
void bring_products_to_gradients(std::vector<Op>& ops) {
  for (auto gradient = ops.begin(); gradient != ops.end(); ++gradient) {
    if (gradient->kind != OpKind::gated_activation_backward) {
      continue;
    }
    auto product = std::find_if(std::make_reverse_iterator(gradient), ops.rend(), [&](const Op& op) {
                     return has(op.outputs, gradient->inputs[1]);
                   }).base();
    if (product == ops.begin()) {
      continue;  // nothing writes it here
    }
    --product;
    if (product->kind == OpKind::linear_backward_input &&
        std::all_of(product + 1, gradient, [&](const Op& op) { return are_apart(*product, op); })) {
      std::rotate(product, product + 1, gradient);
    }
  }
}

bool is_adapter(const Program& program, BufferId weight) {
  Role role = program.buffer(weight).role;
  return role == Role::adapters || role == Role::frozen_adapters;
}

// Whether `share` writes what the product, of plain 16-bit numbers, is then added to.
bool is_share_of(const Program& program, const Op& share, const Op& product) {
  const Format& weight = program.buffer(product.inputs[1]).format;
  bool is_plain = !weight.is_coded() && size_of(weight.dtype) == 2;
  if (!is_plain || share.outputs[0] != product.outputs[0] || share.accumulates != 0 ||
      !product.accumulates_output(0) || !is_adapter(program, share.inputs[1]) ||
      program.buffer(share.inputs[1]).format != weight) {
    return false;
  }
  return product.kind == OpKind::linear
             ? share.kind == OpKind::lora_up
             : product.kind == OpKind::linear_backward_input && share.kind == product.kind &&
                   attributes_of<LinearAttributes>(share).scale == 1.0F;
}

void join_share(const Op& share, Op& product) {
  product.inputs.resize(product_inputs(product), kNoBuffer);
  product.inputs.insert(product.inputs.end(), share.inputs.begin(), share.inputs.end());
  product.accumulates = 0;
  if (share.kind == OpKind::lora_up) {
    std::get<LinearAttributes>(product.attributes).adapter = attributes_of<LoraAttributes>(share);
  }
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

// Products that are made again by themselves, where gates were joined with them: made by the op that made
// them, as other kernels may round otherwise.
void mark_products_made_again(Program& program) {
  std::map<BufferId, GatedLinearAttributes> joined;  // by weight
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::gated_linear && !op.is_backward) {
      joined.emplace(op.inputs[1], attributes_of<GatedLinearAttributes>(op));
    }
  }
  for (Op& op : program.ops) {
    auto twin = op.kind == OpKind::linear && op.is_backward ? joined.find(op.inputs[1]) : joined.end();
    if (twin != joined.end()) {
      op.kind = OpKind::gated_linear;
      op.attributes = twin->second;
      op.outputs.push_back(kNoBuffer);
    }
  }
}

void join_gate_gradient(Op& product, Op& gate) {
  BufferId dgated = product.accumulates_output(0) ? product.outputs[0] : kNoBuffer;
  product.kind = OpKind::gated_linear_backward;
  product.attributes = attributes_of_both(product, gate);
  product.inputs.insert(product.inputs.begin(), {gate.inputs[0], dgated});
  product.outputs = std::move(gate.outputs);
  product.accumulates = 0;
  product.name += " + " + gate.name;
}

}  // namespace

Program fuse_adapted_products(Program program) {
  std::vector<Op>& ops = program.ops;
  std::vector<bool> stays(ops.size(), true);
  std::vector<size_t> written_by(program.buffers.size(), ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    Op& op = ops[i];
    if (op.kind == OpKind::lora_up || op.kind == OpKind::linear_backward_input) {
      if (op.accumulates == 0) {
        written_by[static_cast<size_t>(op.outputs[0])] = i;
      }
    }
    if (op.kind != OpKind::linear && op.kind != OpKind::linear_backward_input) {
      continue;
    }
    size_t before = written_by[static_cast<size_t>(op.outputs[0])];
    if (before >= i || !is_share_of(program, ops[before], op)) {
      continue;
    }
    auto share = ops.begin() + static_cast<std::ptrdiff_t>(before);
    auto product = ops.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::all_of(share + 1, product, [&](const Op& between) { return are_apart(*share, between); })) {
      join_share(*share, op);
      stays[before] = false;
      written_by[static_cast<size_t>(op.outputs[0])] = ops.size();  // others may add to it: the share is gone
    }
  }
  size_t left = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (stays[i] && left++ != i) {
      ops[left - 1] = std::move(ops[i]);
    }
  }
  ops.resize(left);
  return program;
}

Program fuse_gated_products(Program program) {
  bring_products_to_gradients(program.ops);
  std::vector<Op> fused;
  fused.reserve(program.ops.size());
  std::vector<BufferId> gone;  // gradients of activations that nothing but the two ops has to do with
  for (Op& op : program.ops) {
    if (!fused.empty() && is_gate_of(program, fused.back(), op)) {
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
  mark_products_made_again(program);
  if (!gone.empty()) {
    program.remove_buffers(gone);
  }
  return program;
}

}  // namespace snug
