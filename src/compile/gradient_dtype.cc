// Finding the gradients that may be rounded.
#include "compile/gradient_dtype.h"

#include <vector>

#include "ops/effects.h"
#include "ops/table.h"

namespace snug {

Program round_gradients(Program train) {
  std::vector<bool> stays(train.buffers.size(), false);
  for (const Op& op : train.ops) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      bool rounds = row_of(op.kind).rounded_gradient == i;
      if (op.has_output(i) && changes(effect_on_output(op, i)) && !rounds) {
        stays[static_cast<size_t>(op.outputs[i])] = true;
      }
    }
  }
  for (size_t id = 0; id < train.buffers.size(); ++id) {
    Buffer& buffer = train.buffers[id];
    if (buffer.role == Role::gradients && !stays[id]) {
      buffer.format = DType::bf16;
    }
  }
  return train;
}

}  // namespace snug
