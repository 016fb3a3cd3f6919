// Reverse-mode differentiation.
#include "compile/backward.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "ops/table.h"

namespace snug {

Program add_backward(Program forward) {
  std::vector<Op> forward_ops = forward.ops;
  Gradients gradients(std::move(forward));
  std::vector<bool> superseded(forward_ops.size(), false);

  for (int index = static_cast<int>(forward_ops.size()) - 1; index >= 0; --index) {
    const Op& op = forward_ops[static_cast<size_t>(index)];
    const OpRow& row = row_of(op.kind);
    bool reached = std::any_of(op.outputs.begin(), op.outputs.end(),
                               [&](BufferId id) { return id != kNoBuffer && gradients.has(id); });
    bool wanted =
        std::any_of(op.inputs.begin(), op.inputs.end(), [&](BufferId id) { return gradients.wanted(id); });
    // A loss is where gradients start; every other op passes on what has reached it.
    if (!wanted || (!reached && !row.is_loss)) {
      continue;
    }
    SNUG_CHECK(row.append_gradient != nullptr, std::string(row.name) + " has no gradient rule");
    gradients.begin(index);
    row.append_gradient(op, gradients);
    superseded[static_cast<size_t>(index)] = row.gradient_includes_forward;
  }

  Program program = gradients.finish();
  for (size_t index = forward_ops.size(); index-- > 0;) {
    if (superseded[index]) {
      program.ops.erase(program.ops.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
  return program;
}

}  // namespace snug
