// The variable `loop` in a for loop.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace snug::jinja {

class Loop : public Object {
 public:
  explicit Loop(std::vector<Value> items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "loop"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;

  bool ended() const { return index_ == items_.size(); }
  void advance() { ++index_; }
  const Value& item() const { return items_[index_]; }

  Value cycle(Runtime& runtime, const Arguments& arguments) const;
  bool changed(Runtime& runtime, const Arguments& arguments);

 private:
  std::vector<Value> items_;
  size_t index_ = 0;
  std::optional<std::vector<Value>> last_seen_;  // by changed()
};

}  // namespace snug::jinja
