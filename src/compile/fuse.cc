// Fusion of residual addition and norm, of heads' norms and positions, of a gated activation with its
// gradient, and of an adapter's gradients.
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
         op.inputs[In::dy] == next.inputs[In::dy] && !op.has_output(Out::ddown) && !next.has_output(Out::db);
}

// The op that writes each buffer; null: none does.
std::vector<const Op*> find_writers(const Program& program) {
  std::vector<const Op*> writers(program.buffers.size(), nullptr);
  for (const Op& op : program.ops) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.has_output(i) && !op.accumulates_output(i)) {
        writers[static_cast<size_t>(op.outputs[i])] = &op;
      }
    }
  }
  return writers;
}

// Adapters of small rank whose input is a gated activation. Where that is made again by its gradient, dB
// waits for it and the adapter's gradients do not meet. They stay apart always, as kernels that make both at
// once round otherwise, and recomputation is to change no bit. Those of larger ranks make each as if alone.
std::set<BufferId> down_products_of_gates(const Program& program) {
  std::vector<const Op*> writers = find_writers(program);
  auto writer_of = [&](BufferId id) { return writers[static_cast<size_t>(id)]; };
  std::set<BufferId> found;
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::lora_up_backward || !op.has_input(LoraUpBackwardInput::down) ||
        attributes_of<LoraAttributes>(op).rank > kSmallRank) {
      continue;
    }
    BufferId down = op.inputs[LoraUpBackwardInput::down];
    const Op* maker = writer_of(down);
    maker = maker == nullptr ? nullptr : writer_of(maker->inputs[0]);
    while (maker != nullptr && maker->kind == OpKind::dropout) {
      maker = writer_of(maker->inputs[0]);
    }
    if (maker != nullptr &&
        (maker->kind == OpKind::gated_activation || maker->kind == OpKind::gated_activation_backward)) {
      found.insert(down);
    }
  }
  return found;
}

// How many operands of ops each buffer is.
std::vector<int> count_uses(const Program& program) {
  std::vector<int> uses(program.buffers.size(), 0);
  for (const Op& op : program.ops) {
    for (const std::vector<BufferId>* operands : {&op.inputs, &op.outputs}) {
      for (BufferId id : *operands) {
        if (id != kNoBuffer) {
          ++uses[static_cast<size_t>(id)];
        }
      }
    }
  }
  return uses;
}

bool turns_heads_of(const Program& program, const Op& norm, const Op& rope) {
  const auto& normed = attributes_of<HeadNormAttributes>(norm);
  const auto& turned = attributes_of<RopeAttributes>(rope);
  return turned.rotated_heads == normed.q_heads + normed.k_heads &&
         turned.head_dim == program.buffer(norm.inputs[HeadNormRopeInput::wq]).dims[0].max;
}

// Whether `op` is a norm of heads and `next` its rotation, or `op` a rotation back and `next` the gradient of
// the norm before it.
bool is_turned_norm(const Program& program, const Op& op, const Op& next) {
  if (op.is_backward != next.is_backward || op.accumulates_output(0) || next.accumulates_output(0)) {
    return false;
  }
  if (op.kind == OpKind::head_norm && next.kind == OpKind::rope) {
    return next.inputs[0] == op.outputs[0] && !attributes_of<RopeAttributes>(next).inverse &&
           turns_heads_of(program, op, next);
  }
  return op.kind == OpKind::rope && next.kind == OpKind::head_norm_backward &&
         next.inputs[HeadNormBackwardInput::dy] == op.outputs[0] &&
         attributes_of<RopeAttributes>(op).inverse && turns_heads_of(program, next, op);
}

Op join_turned_norm(const Op& op, const Op& next) {
  bool is_forward = op.kind == OpKind::head_norm;
  const Op& norm = is_forward ? op : next;
  const Op& rope = is_forward ? next : op;
  Op joined = next;
  joined.kind = is_forward ? OpKind::head_norm_rope : OpKind::head_norm_rope_backward;
  joined.inputs = norm.inputs;
  if (!is_forward) {
    joined.inputs[HeadNormBackwardInput::dy] = rope.inputs[0];
  }
  joined.inputs.insert(joined.inputs.end(), {rope.inputs[1], rope.inputs[2]});
  HeadNormAttributes attributes = attributes_of<HeadNormAttributes>(norm);
  attributes.magnitude = attributes_of<RopeAttributes>(rope).magnitude;
  joined.attributes = attributes;
  joined.name = op.name + " + " + next.name;
  return joined;
}

}  // namespace

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

Program fuse_head_norms(Program program) {
  std::vector<int> uses = count_uses(program);
  std::vector<Op> fused;
  fused.reserve(program.ops.size());
  std::vector<BufferId> gone;
  for (Op& op : program.ops) {
    if (fused.empty() || !is_turned_norm(program, fused.back(), op)) {
      fused.push_back(std::move(op));
      continue;
    }
    BufferId between = fused.back().outputs[0];
    bool is_read_once = uses[static_cast<size_t>(between)] == 2;  // and written
    if (is_read_once && program.buffer(between).lifetime == Lifetime::temporary) {
      fused.back() = join_turned_norm(fused.back(), op);
      gone.push_back(between);
    } else {
      fused.push_back(std::move(op));
    }
  }
  program.ops = std::move(fused);
  program.remove_buffers(gone);
  return program;
}

Program fuse_adapter_gradients(Program program) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  std::set<BufferId> stay_apart = down_products_of_gates(program);
  std::vector<Op> fused;
  fused.reserve(program.ops.size());
  for (Op& op : program.ops) {
    if (fused.empty() || !is_other_gradient(fused.back(), op) ||
        stay_apart.contains(fused.back().inputs[In::down])) {
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
