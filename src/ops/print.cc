// Programs as text: one line a buffer and an op, for people and golden files.
#include <fmt/format.h>

#include "ops/table.h"

namespace snug {
namespace {

std::string text_of(const Dims& dims) {
  std::string text = "[";
  for (const Dim& dim : dims) {
    std::string_view mark = dim.extent == Extent::fixed ? "" : "<=";
    text += fmt::format("{}{}{}", text.size() > 1 ? ", " : "", mark, dim.max);
  }
  return text + "]";
}

std::string names_of(const Program& program, const std::vector<BufferId>& ids, const Op* accumulating) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string name = ids[i] == kNoBuffer ? "-" : program.buffer(ids[i]).name;
    std::string_view mark = accumulating != nullptr && accumulating->accumulates_output(i) ? " +=" : "";
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name, mark);
  }
  return text;
}

}  // namespace

std::string to_text(const Program& program) {
  std::string text = fmt::format("program {}\n", program.name);
  for (const Buffer& buffer : program.buffers) {
    text += fmt::format("  buffer {} {} {} {}\n", buffer.name, name_of(buffer.dtype), text_of(buffer.dims),
                        name_of(buffer.role));
  }
  for (const Op& op : program.ops) {
    text += fmt::format("  {:<26} {}: {} -> {}\n", row_of(op.kind).name, op.name,
                        names_of(program, op.inputs, nullptr), names_of(program, op.outputs, &op));
  }
  return text;
}

}  // namespace snug
