// The rules that every program keeps between passes.
#include <fmt/format.h>

#include <unordered_set>

#include "ops/effects.h"
#include "ops/table.h"

namespace snug {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program),
        written_(program.buffers.size()),
        reader_(program.buffers.size(), nullptr),
        writer_(program.buffers.size(), nullptr) {}

  std::string run() {
    std::string problem = check_buffers();
    for (size_t i = 0; problem.empty() && i < program_.ops.size(); ++i) {
      problem = check_op(program_.ops[i]);
      if (!problem.empty()) {
        problem = fmt::format("op {} ({}): {}", i, program_.ops[i].name, problem);
      }
    }
    return problem;
  }

 private:
  std::string check_buffers() {
    std::unordered_set<std::string_view> names;
    names.reserve(program_.buffers.size());
    for (size_t id = 0; id < program_.buffers.size(); ++id) {
      const Buffer& buffer = program_.buffers[id];
      if (!names.insert(buffer.name).second) {
        return fmt::format("two buffers are named \"{}\"", buffer.name);
      }
      for (const Dim& dim : buffer.dims) {
        if (dim.max <= 0) {
          return fmt::format("buffer \"{}\" has a dimension of {}", buffer.name, dim.max);
        }
      }
      written_[id] = buffer.lifetime == Lifetime::input || outlives_execution(buffer);
    }
    return "";
  }

  bool in_range(BufferId id) const { return id >= 0 && id < static_cast<BufferId>(program_.buffers.size()); }

  std::string check_op(const Op& op) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == kNoBuffer) {
        continue;
      }
      if (!in_range(op.inputs[i])) {
        return fmt::format("input {} is no buffer", op.inputs[i]);
      }
      reader_[static_cast<size_t>(op.inputs[i])] = &op;
      if (std::string problem = check_content(op.inputs[i], effect_on_input(op, i)); !problem.empty()) {
        return problem;
      }
      if (program_.buffer(op.inputs[i]).format.is_coded() && row_of(op.kind).coded_input != i) {
        return takes_no_codes(op.inputs[i]);
      }
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      BufferId id = op.outputs[i];
      if (id == kNoBuffer) {
        continue;
      }
      if (!in_range(id)) {
        return fmt::format("output {} is no buffer", id);
      }
      if (program_.buffer(id).format.is_coded() && !row_of(op.kind).coded_outputs) {
        return takes_no_codes(id);
      }
      Effect effect = effect_on_output(op, i);
      if (std::string problem = check_content(id, effect); !problem.empty()) {
        return problem;
      }
      // Attention writes queries' and keys' columns of one buffer.
      bool may_overwrite = outlives_execution(program_.buffer(id)) || writer_[static_cast<size_t>(id)] == &op;
      if (effect == Effect::write && is_written(id) && !may_overwrite) {
        return fmt::format("writes \"{}\" a second time", program_.buffer(id).name);
      }
      if (reader_[static_cast<size_t>(id)] == &op) {
        return fmt::format("changes \"{}\", which it also reads", program_.buffer(id).name);
      }
      writer_[static_cast<size_t>(id)] = &op;
      written_[static_cast<size_t>(id)] = true;
    }
    return "";
  }

  std::string check_content(BufferId id, Effect effect) const {
    if (!needs_content(effect) || is_written(id)) {
      return "";
    }
    std::string_view verb = effect == Effect::read ? "reads" : effect == Effect::add ? "adds to" : "updates";
    return fmt::format("{} \"{}\" before it is written", verb, program_.buffer(id).name);
  }

  std::string takes_no_codes(BufferId id) const {
    const Buffer& buffer = program_.buffer(id);
    return fmt::format("takes no codes, and \"{}\" is {}", buffer.name, name_of(buffer.format));
  }

  bool is_written(BufferId id) const { return written_[static_cast<size_t>(id)]; }

  const Program& program_;
  std::vector<bool> written_;
  std::vector<const Op*> reader_;  // of each buffer, the last so far
  std::vector<const Op*> writer_;
};

}  // namespace

std::string find_violation(const Program& program) {
  return Verifier(program).run();
}

}  // namespace snug
