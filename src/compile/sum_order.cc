// Moving linear ops behind their adapters.
#include "compile/sum_order.h"

#include <algorithm>

namespace snug {
namespace {

bool uses(const Op& op, BufferId buffer) {
  auto is_it = [&](BufferId id) { return id == buffer; };
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_it) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_it);
}

// Parts do not overlap, so their number of columns tells.
bool covers(const Program& program, const Op& lora_up) {
  int64_t columns = 0;
  for (const LoraPart& part : attributes_of<LoraAttributes>(lora_up).parts) {
    columns += part.rows;
  }
  return columns == program.buffer(lora_up.outputs[0]).dims[1].max;
}

// The next op that touches what `linear` wrote, if it is an adapter of all of it; else the end.
std::vector<Op>::iterator adapter_of(const Program& program, std::vector<Op>::iterator linear,
                                     std::vector<Op>::iterator end) {
  BufferId y = linear->outputs[0];
  auto next = std::find_if(linear + 1, end, [&](const Op& op) { return uses(op, y); });
  bool is_adapter = next != end && next->kind == OpKind::lora_up && next->outputs[0] == y &&
                    next->accumulates_output(0) && covers(program, *next);
  return is_adapter ? next : end;
}

}  // namespace

Program put_adapters_first(Program program) {
  for (auto op = program.ops.begin(); op != program.ops.end();) {
    bool writes = op->kind == OpKind::linear && !op->accumulates_output(0);
    auto adapter = writes ? adapter_of(program, op, program.ops.end()) : program.ops.end();
    if (adapter == program.ops.end()) {
      ++op;
      continue;
    }
    adapter->accumulates = 0;
    op->accumulates = 1;
    std::rotate(op, op + 1, adapter + 1);  // what stood behind the linear op stands here now
  }
  return program;
}

}  // namespace snug
