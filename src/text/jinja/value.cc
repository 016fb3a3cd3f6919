// The values that a template computes with.
#include "text/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/jinja/runtime.h"

namespace snug::jinja {

namespace {

int checked_depth(int depth) {
  constexpr int kMaxDepth = 200;
  if (depth > kMaxDepth) {
    throw bad_input(
        fmt::format("chat template: a value of more than {} levels of lists in lists.", kMaxDepth));
  }
  return depth;
}

}  // namespace

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items_) {
    if (name.is_string() && name.string() == key) {
      return &value;
    }
  }
  return nullptr;
}

void Dict::set(std::string_view key, Value value) {
  for (size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].first.is_string() && items_[i].first.string() == key) {
      replace(i, std::move(value));
      return;
    }
  }
  append(Value(key), std::move(value));
}

void Dict::replace(size_t index, Value value) {
  depth_ = checked_depth(std::max(depth_, value.depth() + 1));
  items_[index].second = std::move(value);
}

void Dict::append(Value key, Value value) {
  depth_ = checked_depth(std::max({depth_, key.depth() + 1, value.depth() + 1}));
  items_.emplace_back(std::move(key), std::move(value));
}

Value Value::undefined(std::string reason) {
  Value result;
  result.data_ = Undefined{std::make_shared<const std::string>(std::move(reason))};
  return result;
}

Value Value::sequence(SequenceKind kind, std::vector<Value> items) {
  int depth = 1;
  for (const Value& item : items) {
    depth = std::max(depth, item.depth() + 1);
  }
  Value result;
  result.data_ = std::make_shared<Sequence>(Sequence{kind, std::move(items), checked_depth(depth)});
  return result;
}

bool Value::truth() const {
  if (is_none() || is_undefined()) {
    return false;
  }
  if (is_integral()) {
    return integer() != 0;
  }
  if (is_real()) {
    return real() != 0;
  }
  if (is_string()) {
    return !string().empty();
  }
  if (is_sequence()) {
    return sequence().kind == SequenceKind::generator || !sequence().items.empty();
  }
  return !is_dict() || !dict().items().empty();
}

std::string_view Value::type_name() const {
  if (is_sequence()) {
    switch (sequence().kind) {
      case SequenceKind::list:
        return "list";
      case SequenceKind::tuple:
        return "tuple";
      case SequenceKind::range:
        return "range";
      case SequenceKind::view:
        return "dict view";
      case SequenceKind::generator:
        return "generator";
    }
  }
  if (is_object()) {
    return object().type_name();
  }
  constexpr std::string_view kNames[] = {"NoneType", "Undefined", "bool", "int", "float", "str", "", "dict"};
  return kNames[data_.index()];
}

bool Value::is_shared_with(const Value& other) const {
  if (is_string() && other.is_string()) {
    return &string() == &other.string();
  }
  if (is_sequence() && other.is_sequence()) {
    return &sequence() == &other.sequence();
  }
  return is_dict() && other.is_dict() && &dict() == &other.dict();
}

std::optional<Value> Object::attribute(Runtime& /*runtime*/, std::string_view /*name*/) {
  return std::nullopt;
}

}  // namespace snug::jinja
