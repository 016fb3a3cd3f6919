// Bookkeeping of the backward pass: which value's gradient lies in which buffer.
#include "ops/gradients.h"

#include <algorithm>

#include "base/check.h"
#include "program/names.h"

namespace snug {

Gradients::Gradients(Program forward)
    : builder_(std::move(forward)),
      wanted_(builder_.program().buffers.size(), false),
      producer_(builder_.program().buffers.size(), -1) {
  const Program& program = builder_.program();
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    wanted_[id] = program.buffers[id].trainable;
  }
  for (size_t index = 0; index < program.ops.size(); ++index) {
    const Op& op = program.ops[index];
    bool any = std::any_of(op.inputs.begin(), op.inputs.end(),
                           [&](BufferId id) { return id != kNoBuffer && wanted_[static_cast<size_t>(id)]; });
    for (BufferId id : op.outputs) {
      if (id == kNoBuffer) {
        continue;
      }
      auto i = static_cast<size_t>(id);
      wanted_[i] = wanted_[i] || any;
      if (producer_[i] < 0) {
        producer_[i] = static_cast<int>(index);
      }
    }
  }
}

void Gradients::begin(int forward_op_index) {
  current_ = forward_op_index;
  current_op_ = builder_.program().ops[static_cast<size_t>(forward_op_index)];
}

bool Gradients::wanted(BufferId value) const {
  return value != kNoBuffer && wanted_[static_cast<size_t>(value)];
}

BufferId Gradients::of(BufferId value) const {
  auto found = gradient_of_.find(value);
  SNUG_CHECK(found != gradient_of_.end(), "no gradient has reached " + buffer(value).name);
  return found->second;
}

BufferId Gradients::gradient_of_weight(BufferId weight) {
  auto found = gradient_of_.find(weight);
  if (found != gradient_of_.end()) {
    return found->second;
  }
  const Buffer& value = buffer(weight);
  BufferId gradient = builder_.persistent(gradient_name(value.name), DType::f32, value.dims, Role::gradients);
  gradient_of_[weight] = gradient;
  return gradient;
}

bool Gradients::free_to_change(BufferId gradient, BufferId value) {
  auto found = sharers_.find(gradient);
  if (found == sharers_.end()) {
    return true;
  }
  // A sharer's gradient is read when its producers are differentiated, from the last op to the first. Those
  // that are behind us are forgotten: one buffer may serve the residual stream of every layer.
  std::erase_if(found->second, [&](BufferId sharer) {
    return sharer != value && producer_[static_cast<size_t>(sharer)] > current_;
  });
  return found->second.size() <= found->second.count(value);
}

Gradients::Target Gradients::target(BufferId value) {
  if (!wanted(value)) {
    return {};
  }
  if (buffer(value).trainable) {
    bool begins = !has(value);
    return {gradient_of_weight(value), true, begins};
  }
  auto found = gradient_of_.find(value);
  if (found == gradient_of_.end()) {
    Buffer shape = buffer(value);
    BufferId gradient = builder_.temporary("d." + shape.name, shape.dtype(), shape.dims);
    gradient_of_[value] = gradient;
    sharers_[gradient] = {value};
    return {gradient, false};
  }
  if (!free_to_change(found->second, value)) {
    Buffer shape = buffer(value);
    BufferId own = builder_.temporary("d." + shape.name, shape.dtype(), shape.dims);
    append(OpKind::copy, {found->second}, {{own, false}});
    sharers_[found->second].erase(value);
    sharers_[own] = {value};
    gradient_of_[value] = own;
  }
  return {gradient_of_[value], true};
}

void Gradients::share(BufferId value, BufferId output) {
  if (!wanted(value)) {
    return;
  }
  SNUG_CHECK(!buffer(value).trainable, "a weight's gradient is its own buffer");
  BufferId gradient = of(output);
  auto found = gradient_of_.find(value);
  if (found == gradient_of_.end()) {
    gradient_of_[value] = gradient;
    sharers_[gradient].insert(value);
    return;
  }
  Buffer shape = buffer(value);
  BufferId sum = builder_.temporary("d." + shape.name + ".sum", shape.dtype(), shape.dims);
  append(OpKind::add, {found->second, gradient}, {{sum, false}});
  sharers_[found->second].erase(value);
  sharers_[sum] = {value};
  gradient_of_[value] = sum;
}

void Gradients::append(OpKind kind, std::vector<BufferId> inputs, const std::vector<Target>& targets,
                       Attributes attributes) {
  std::vector<BufferId> outputs;
  uint32_t accumulates = 0;
  uint32_t begins = 0;
  for (const Target& target : targets) {
    accumulates |= (target.accumulate ? 1U : 0U) << outputs.size();
    begins |= (target.begins ? 1U : 0U) << outputs.size();
    outputs.push_back(target.buffer);
  }
  Op& op =
      builder_.append(kind, current_op_.name, std::move(inputs), std::move(outputs), std::move(attributes));
  op.accumulates = accumulates;
  op.begins = begins;
  op.layer = current_op_.layer;
  op.is_backward = true;
}

}  // namespace snug
