// The rules that every program keeps between passes.
#include <fmt/format.h>

#include <unordered_set>

#include "base/check.h"
#include "program/program.h"

namespace snug {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program), written_(program.buffers.size()) {}

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
    std::unordered_set<std::string> names;
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

  static bool outlives_execution(const Buffer& buffer) {
    return buffer.lifetime == Lifetime::persistent || buffer.lifetime == Lifetime::phase;
  }

  bool in_range(BufferId id) const { return id >= 0 && id < static_cast<BufferId>(program_.buffers.size()); }

  std::string check_op(const Op& op) {
    for (BufferId id : op.inputs) {
      if (id == kNoBuffer) {
        continue;
      }
      if (!in_range(id)) {
        return fmt::format("input {} is no buffer", id);
      }
      if (!written_[static_cast<size_t>(id)]) {
        return fmt::format("reads \"{}\" before it is written", program_.buffer(id).name);
      }
    }
    std::unordered_set<BufferId> own_outputs;  // attention writes queries' and keys' columns of one buffer
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      BufferId id = op.outputs[i];
      if (id == kNoBuffer) {
        continue;
      }
      if (!in_range(id)) {
        return fmt::format("output {} is no buffer", id);
      }
      bool is_written = written_[static_cast<size_t>(id)];
      if (op.accumulates_output(i) && !is_written) {
        return fmt::format("adds to \"{}\" before it is written", program_.buffer(id).name);
      }
      bool may_overwrite = outlives_execution(program_.buffer(id)) || own_outputs.contains(id);
      if (!op.accumulates_output(i) && is_written && !may_overwrite) {
        return fmt::format("writes \"{}\" a second time", program_.buffer(id).name);
      }
      own_outputs.insert(id);
      written_[static_cast<size_t>(id)] = true;
    }
    return "";
  }

  const Program& program_;
  std::vector<bool> written_;
};

}  // namespace

std::string find_violation(const Program& program) {
  return Verifier(program).run();
}

void verify(const Program& program) {
  std::string problem = find_violation(program);
  SNUG_CHECK(problem.empty(), "program \"" + program.name + "\": " + problem);
}

}  // namespace snug
