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

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) {
    return find(std::string_view(key.string()));
  }
  for (const auto& [name, value] : items_) {
    if (equal(name, key)) {
      return &value;
    }
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items_) {
    if (name.is_string() && name.string() == key) {
      return &value;
    }
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  for (auto& [name, old] : items_) {
    if (equal(name, key)) {
      depth_ = checked_depth(std::max(depth_, value.depth() + 1));
      old = std::move(value);
      return;
    }
  }
  append(std::move(key), std::move(value));
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

bool Value::same_as(const Value& other) const {
  if (data_.index() != other.data_.index()) {
    return false;
  }
  if (is_sequence()) {
    return &sequence() == &other.sequence();
  }
  if (is_dict()) {
    return &dict() == &other.dict();
  }
  return equal(*this, other);
}

namespace {

bool equal_items(const Sequence& left, const Sequence& right) {
  if (left.kind != right.kind || left.items.size() != right.items.size() ||
      left.kind == SequenceKind::generator) {
    return &left == &right;
  }
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(), equal);
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.items().size() != right.items().size()) {
    return false;
  }
  return std::all_of(left.items().begin(), left.items().end(), [&](const auto& item) {
    const Value* other = right.find(item.first);
    return other != nullptr && equal(item.second, *other);
  });
}

}  // namespace

bool equal(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    return left.is_integral() && right.is_integral() ? left.integer() == right.integer()
                                                     : left.real() == right.real();
  }
  if (left.is_string() && right.is_string()) {
    return left.string() == right.string();
  }
  if (left.is_sequence() && right.is_sequence()) {
    return equal_items(left.sequence(), right.sequence());
  }
  if (left.is_dict() && right.is_dict()) {
    return equal_dicts(left.dict(), right.dict());
  }
  if (left.is_object() && right.is_object()) {
    return &left.object() == &right.object();
  }
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

std::optional<Value> Object::attribute(Runtime& /*runtime*/, std::string_view /*name*/) {
  return std::nullopt;
}

}  // namespace snug::jinja
