// What a gradient rule works with: the gradients known so far, and a place to append ops.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "program/builder.h"

namespace snug {

class Gradients {
 public:
  // `forward` is the program whose ops are differentiated; appended ops go to its end. The ops before
  // `forward_op_count` are the forward pass.
  explicit Gradients(Program forward);

  // Whether anything trainable lies behind this value (or it is trainable itself).
  bool wanted(BufferId value) const;
  // Whether any gradient has reached this value.
  bool has(BufferId value) const { return gradient_of_.contains(value); }
  // The gradient of a value, complete because all its readers have been differentiated.
  BufferId of(BufferId value) const;

  // Where a rule adds its contribution to the gradient of `value`: the first contribution writes, later
  // ones add. Trainable weights always add, to their persistent gradient; the first of those that do begins
  // the sum of a step.
  struct Target {
    BufferId buffer = kNoBuffer;
    bool accumulate = false;
    bool begins = false;
  };
  Target target(BufferId value);

  // The gradient of `value` is the gradient of `output`, unchanged (as through an addition). Both share
  // one buffer as long as nobody still needs the other's.
  void share(BufferId value, BufferId output);

  // Appends an op that writes to `targets`, with the right accumulate bits. An empty target is no output.
  void append(OpKind kind, std::vector<BufferId> inputs, const std::vector<Target>& targets,
              Attributes attributes = {});

  const Buffer& buffer(BufferId id) const { return builder_.buffer(id); }

  // For the backward pass: which forward op is being differentiated, and the result.
  void begin(int forward_op_index);
  BufferId gradient_of_weight(BufferId weight);
  Program finish() { return builder_.finish(); }

 private:
  // Whether every reader of `buffer`'s content on behalf of other values has been appended already.
  bool free_to_change(BufferId gradient, BufferId value);

  Builder builder_;
  std::vector<bool> wanted_;   // by forward buffer
  std::vector<int> producer_;  // by forward buffer: the last forward op that writes it
  std::map<BufferId, BufferId> gradient_of_;
  std::map<BufferId, std::set<BufferId>> sharers_;  // gradient buffer -> values that may still need it
  int current_ = 0;                                 // index of the forward op
  Op current_op_;
};

}  // namespace snug
