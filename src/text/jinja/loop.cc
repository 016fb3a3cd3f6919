// The variable `loop` in a for loop.
#include "text/jinja/loop.h"

#include <algorithm>

#include "text/jinja/operators.h"

namespace snug::jinja {

namespace {

class LoopMethod : public Callable {
 public:
  LoopMethod(Loop& loop, bool is_cycle) : loop_(loop), is_cycle_(is_cycle) {}
  std::string_view type_name() const override { return "method"; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return is_cycle_ ? loop_.cycle(runtime, arguments) : Value(loop_.changed(runtime, arguments));
  }

 private:
  Loop& loop_;
  bool is_cycle_;
};

}  // namespace

std::optional<Value> Loop::attribute(Runtime& runtime, std::string_view name) {
  auto index = static_cast<int64_t>(index_);
  auto size = static_cast<int64_t>(items_.size());
  if (name == "index") {
    return Value(index + 1);
  }
  if (name == "index0") {
    return Value(index);
  }
  if (name == "revindex") {
    return Value(size - index);
  }
  if (name == "revindex0") {
    return Value(size - index - 1);
  }
  if (name == "first") {
    return Value(index == 0);
  }
  if (name == "last") {
    return Value(index + 1 == size);
  }
  if (name == "length") {
    return Value(size);
  }
  if (name == "previtem") {
    return index > 0 ? items_[index_ - 1] : runtime.undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < size ? items_[index_ + 1] : runtime.undefined("there is no next item");
  }
  if (name == "depth") {
    return Value(int64_t{1});
  }
  if (name == "depth0") {
    return Value(int64_t{0});
  }
  if (name == "cycle" || name == "changed") {
    return Value(runtime.make<LoopMethod>(*this, name == "cycle"));
  }
  return std::nullopt;
}

Value Loop::cycle(Runtime& runtime, const Arguments& arguments) const {
  if (arguments.positional.empty()) {
    runtime.fail("loop.cycle() needs values to go through");
  }
  return arguments.positional[index_ % arguments.positional.size()];
}

bool Loop::changed(Runtime& runtime, const Arguments& arguments) {
  const std::vector<Value>& now = arguments.positional;
  if (last_seen_ && last_seen_->size() == now.size() &&
      std::equal(now.begin(), now.end(), last_seen_->begin(),
                 [&](const Value& left, const Value& right) { return equal(runtime, left, right); })) {
    return false;
  }
  last_seen_ = now;
  return true;
}

}  // namespace snug::jinja
