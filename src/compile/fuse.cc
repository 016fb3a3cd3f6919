// Fusion of residual addition and norm.
#include "compile/fuse.h"

#include "ops/table.h"

namespace snug {
namespace {

bool is_norm_of_sum(const Op& add, const Op& norm) {
  return add.kind == OpKind::add && norm.kind == OpKind::rms_norm && norm.inputs[0] == add.outputs[0] &&
         add.is_backward == norm.is_backward;
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
  verify_with_shapes(program);
  return program;
}

}  // namespace snug
