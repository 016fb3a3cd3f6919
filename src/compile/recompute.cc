// Recomputation: before a backward op reads a value that was not kept, the forward ops that make it are
// written again, as late as possible.
#include "compile/recompute.h"

#include <string>
#include <vector>

#include "base/check.h"
#include "ops/effects.h"

namespace snug {
namespace {

class Recomputation {
 public:
  Recomputation(Program program, const std::vector<Recompute>& policies)
      : program_(std::move(program)),
        policies_(policies),
        producers_(program_.buffers.size()),
        again_(program_.buffers.size(), kNoBuffer) {
    for (size_t index = 0; index < program_.ops.size(); ++index) {
      const Op& op = program_.ops[index];
      if (op.is_backward) {
        continue;
      }
      for (BufferId id : op.outputs) {
        if (id != kNoBuffer && program_.buffer(id).lifetime == Lifetime::temporary) {
          producers_[static_cast<size_t>(id)].push_back(index);
        }
      }
    }
    leaves_layer_.resize(program_.buffers.size(), false);
    for (const Op& op : program_.ops) {
      for (BufferId id : op.inputs) {
        if (id != kNoBuffer && !op.is_backward && made_in_forward(id) && layer_of(id) != op.layer) {
          leaves_layer_[static_cast<size_t>(id)] = true;
        }
      }
    }
  }

  Program run() {
    for (Op& op : program_.ops) {
      if (op.is_backward) {
        for (BufferId& id : op.inputs) {
          id = available(id);
        }
        result_.push_back(std::move(op));
      } else {
        result_.push_back(op);  // it may have to be made again
      }
    }
    program_.ops = std::move(result_);
    return std::move(program_);
  }

 private:
  bool made_in_forward(BufferId id) const {
    return static_cast<size_t>(id) < producers_.size() && !producers_[static_cast<size_t>(id)].empty();
  }

  int layer_of(BufferId id) const { return program_.ops[producers_[static_cast<size_t>(id)].front()].layer; }

  Recompute policy_of(int layer) const {
    auto index = static_cast<size_t>(layer);
    bool is_named = policies_.size() == 1 || index < policies_.size();
    return is_named ? policies_[policies_.size() == 1 ? 0 : index] : Recompute::none;
  }

  bool is_kept(BufferId id) const {
    int layer = layer_of(id);
    // A layer's output is the next layer's input: that is what every policy keeps.
    if (layer == kNoLayer || policies_.empty() || leaves_layer_[static_cast<size_t>(id)]) {
      return true;
    }
    Recompute policy = policy_of(layer);
    return policy == Recompute::none || policy.kept.contains(layer_value_of(program_.buffer(id).name));
  }

  // The buffer that holds the value of `id` for a backward op that comes next.
  BufferId available(BufferId id) {
    if (id == kNoBuffer || !made_in_forward(id) || is_kept(id)) {
      return id;
    }
    const BufferId& again = again_[static_cast<size_t>(id)];
    if (again == kNoBuffer) {
      for (size_t maker : producers_[static_cast<size_t>(id)]) {
        make_again(maker);
      }
    }
    return again;
  }

  void make_again(size_t forward_index) {
    Op op = program_.ops[forward_index];
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      SNUG_CHECK(effect_on_input(op, i) == Effect::read,
                 op.name + " cannot be made again: it changes its inputs");
      op.inputs[i] = available(op.inputs[i]);
    }
    for (BufferId& id : op.outputs) {
      if (id == kNoBuffer) {
        continue;
      }
      BufferId& again = again_[static_cast<size_t>(id)];
      if (again == kNoBuffer) {
        Buffer copy = program_.buffer(id);
        copy.name += ".again";
        copy.role = Role::recomputed_activations;
        again = program_.add_buffer(std::move(copy));
      }
      id = again;
    }
    op.is_backward = true;
    result_.push_back(std::move(op));
  }

  Program program_;
  const std::vector<Recompute>& policies_;
  std::vector<std::vector<size_t>> producers_;  // by buffer: the forward ops that write it
  std::vector<bool> leaves_layer_;              // by buffer: another layer's forward ops read it
  std::vector<BufferId> again_;                 // by buffer: the one in which its value is made again
  std::vector<Op> result_;
};

// What the forward pass writes and the backward pass reads is what the report calls kept.
void mark_kept_activations(Program& program) {
  std::vector<bool> made(program.buffers.size(), false);
  for (const Op& op : program.ops) {
    for (BufferId id : op.outputs) {
      if (id != kNoBuffer && !op.is_backward) {
        made[static_cast<size_t>(id)] = true;
      }
    }
  }
  for (const Op& op : program.ops) {
    for (BufferId id : op.inputs) {
      if (id != kNoBuffer && op.is_backward && made[static_cast<size_t>(id)] &&
          program.buffer(id).role == Role::activations) {
        program.buffer(id).role = Role::kept_activations;
      }
    }
  }
}

}  // namespace

Program apply_recompute(Program program, const std::vector<Recompute>& policies) {
  Program result = Recomputation(std::move(program), policies).run();
  mark_kept_activations(result);
  return result;
}

}  // namespace snug
