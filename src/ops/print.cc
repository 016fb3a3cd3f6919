// Programs as text: one line a buffer and an op, for people and golden files.
#include <fmt/format.h>

#include "base/bytes.h"
#include "ops/effects.h"
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

// "" for what most operands are: inputs that are read, outputs that are written.
std::string_view mark_of(Effect effect) {
  return effect == Effect::add ? " +=" : effect == Effect::update ? " ~" : "";
}

std::string names_of(const Program& program, const Op& op, const std::vector<BufferId>& ids,
                     Effect (*effect_of)(const Op&, size_t)) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string name = ids[i] == kNoBuffer ? "-" : program.buffer(ids[i]).name;
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name, mark_of(effect_of(op, i)));
  }
  return text;
}

}  // namespace

std::string to_text(const Program& program) {
  std::string text = fmt::format("program {}\n", program.name);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.role != Role::workspace) {
      text += fmt::format("  buffer {} {} {} {}, {}, {}\n", buffer.name, name_of(buffer.format),
                          text_of(buffer.dims), name_of(buffer.role), name_of(buffer.lifetime),
                          name_of(buffer.home));
    }
  }
  for (const Op& op : program.ops) {
    std::string scratch =
        op.workspace == kNoBuffer
            ? ""
            : fmt::format(", scratch {} bytes", format_count(program.buffer(op.workspace).max_bytes()));
    text += fmt::format("  {:<26} {}: {} -> {}{}\n", row_of(op.kind).name, op.name,
                        names_of(program, op, op.inputs, effect_on_input),
                        names_of(program, op, op.outputs, effect_on_output), scratch);
  }
  return text;
}

}  // namespace snug
