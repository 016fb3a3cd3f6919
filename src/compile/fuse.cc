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
         op.inputs[In::dy] == next.inputs[In::dy] && !op.has_output(Out::ddown) &&
         !next.has_output(Out::db) && attributes_of<LoraAttributes>(op).rank <= kSmallRank;
}

// Whether they are the same heads.
bool rotates_heads_of(const Program& program, const Op& rope, const Op& norm) {
  const auto& rotated = attributes_of<RopeAttributes>(rope);
  const auto& normed = attributes_of<HeadNormAttributes>(norm);
  return rotated.rotated_heads == normed.q_heads + normed.k_heads &&
         rotated.head_dim == program.buffer(norm.inputs[HeadNormRopeInput::wq]).dims[0].max;
}

// Joins each norm of heads with the rotation that alone reads its result, and each rotation back with the
// gradient of a norm that alone reads its result. The joined op stands where the second one stood: what is
// made again for it may stand between them.
class HeadNormFusion {
 public:
  explicit HeadNormFusion(Program program) : program_(std::move(program)), uses_(program_.buffers.size(), 0) {
    for (const Op& op : program_.ops) {
      count_uses(op.inputs);
      count_uses(op.outputs);
    }
  }

  Program run() {
    for (Op& op : program_.ops) {
      if (op.kind == OpKind::rope) {
        join_with_norm(op);
      } else if (op.kind == OpKind::head_norm_backward) {
        join_with_rotation(op);
      }
      fused_.push_back(std::move(op));
    }
    program_.ops = std::move(fused_);
    program_.remove_buffers(gone_);
    return std::move(program_);
  }

 private:
  void count_uses(const std::vector<BufferId>& operands) {
    for (BufferId id : operands) {
      if (id != kNoBuffer) {
        ++uses_[static_cast<size_t>(id)];
      }
    }
  }

  // The op of this kind that makes `value` for `reader` and for nothing else, where it can be moved to the
  // reader's place; else the end.
  Ops::iterator maker_of(BufferId value, OpKind kind, const Op& reader) {
    bool is_passed_on = uses_[static_cast<size_t>(value)] == 2 &&
                        program_.buffer(value).lifetime == Lifetime::temporary &&
                        !reader.accumulates_output(0);
    auto found = std::find_if(fused_.rbegin(), fused_.rend(), [&](const Op& op) {
      return std::count(op.outputs.begin(), op.outputs.end(), value) > 0;
    });
    if (!is_passed_on || found == fused_.rend() || found->kind != kind || found->accumulates_output(0) ||
        found->is_backward != reader.is_backward) {
      return fused_.end();
    }
    std::set<BufferId> read(found->inputs.begin(), found->inputs.end());
    bool stays = std::none_of(fused_.rbegin(), found,
                              [&](const Op& between) { return uses_any(between.outputs, read); });
    return stays ? found.base() - 1 : fused_.end();
  }

  void join_with_norm(Op& rope) {
    BufferId normed = rope.inputs[0];
    auto norm = maker_of(normed, OpKind::head_norm, rope);
    const auto& rotation = attributes_of<RopeAttributes>(rope);
    if (norm == fused_.end() || rotation.inverse || !rotates_heads_of(program_, rope, *norm)) {
      return;
    }
    HeadNormAttributes attributes = attributes_of<HeadNormAttributes>(*norm);
    attributes.magnitude = rotation.magnitude;
    rope.kind = OpKind::head_norm_rope;
    rope.inputs = {norm->inputs[0], norm->inputs[1], norm->inputs[2], rope.inputs[1], rope.inputs[2]};
    rope.attributes = attributes;
    rope.name = norm->name + " + " + rope.name;
    drop(norm, normed);
  }

  void join_with_rotation(Op& backward) {
    BufferId dy = backward.inputs[HeadNormBackwardInput::dy];
    auto rope = maker_of(dy, OpKind::rope, backward);
    if (rope == fused_.end() || !attributes_of<RopeAttributes>(*rope).inverse ||
        !rotates_heads_of(program_, *rope, backward)) {
      return;
    }
    HeadNormAttributes attributes = attributes_of<HeadNormAttributes>(backward);
    attributes.magnitude = attributes_of<RopeAttributes>(*rope).magnitude;
    backward.kind = OpKind::head_norm_rope_backward;
    backward.inputs[HeadNormBackwardInput::dy] = rope->inputs[0];
    backward.inputs.insert(backward.inputs.end(), {rope->inputs[1], rope->inputs[2]});
    backward.attributes = attributes;
    backward.name = rope->name + " + " + backward.name;
    drop(rope, dy);
  }

  void drop(Ops::iterator op, BufferId value) {
    gone_.push_back(value);
    fused_.erase(op);
  }

  Program program_;
  std::vector<int> uses_;  // of each buffer, by ops
  Ops fused_;
  std::vector<BufferId> gone_;
};

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
  return HeadNormFusion(std::move(program)).run();
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
