// Effects, and how long buffers live by them.
#include "ops/effects.h"

#include <algorithm>

#include "base/check.h"
#include "ops/table.h"

namespace snug {
namespace {

bool comes_filled(const Buffer& buffer) {
  return buffer.lifetime == Lifetime::input || outlives_execution(buffer);
}

class Lifetimes {
 public:
  explicit Lifetimes(const Program& program) : program_(program), intervals_(program.buffers.size()) {}

  std::vector<Interval> run() {
    for (size_t index = 0; index < program_.ops.size(); ++index) {
      const Op& op = program_.ops[index];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        use(op.inputs[i], static_cast<int>(index), effect_on_input(op, i));
      }
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        use(op.outputs[i], static_cast<int>(index), effect_on_output(op, i));
      }
      use(op.workspace, static_cast<int>(index), Effect::write);
    }
    for (size_t id = 0; id < intervals_.size(); ++id) {
      extend(program_.buffers[id], intervals_[id]);
    }
    return std::move(intervals_);
  }

 private:
  void use(BufferId id, int index, Effect effect) {
    if (id == kNoBuffer) {
      return;
    }
    Interval& interval = intervals_[static_cast<size_t>(id)];
    if (interval.first < 0) {
      SNUG_CHECK(!needs_content(effect) || comes_filled(program_.buffer(id)),
                 "nothing has written " + program_.buffer(id).name + " when it is needed");
      interval.first = index;
    }
    interval.last = index;
  }

  // The host fills inputs, persistent buffers and those of a phase even where no op uses them; it reads
  // outputs.
  void extend(const Buffer& buffer, Interval& interval) const {
    bool used = interval.first >= 0;
    if (comes_filled(buffer)) {
      interval.first = 0;
      interval.last = std::max(interval.last, 0);
    }
    if (outlives_execution(buffer) || (buffer.lifetime == Lifetime::output && used)) {
      interval.last = std::max(static_cast<int>(program_.ops.size()) - 1, 0);
    }
  }

  const Program& program_;
  std::vector<Interval> intervals_;
};

}  // namespace

Effect effect_on_input(const Op& op, size_t input) {
  const OpRow& row = row_of(op.kind);
  return row.input_effect != nullptr ? row.input_effect(op, input) : Effect::read;
}

Effect effect_on_output(const Op& op, size_t output) {
  const OpRow& row = row_of(op.kind);
  if (row.output_effect != nullptr) {
    return row.output_effect(op, output);
  }
  return op.accumulates_output(output) ? Effect::add : Effect::write;
}

std::vector<Interval> lifetimes(const Program& program) {
  return Lifetimes(program).run();
}

}  // namespace snug
