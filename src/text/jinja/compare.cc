// Python's comparisons. Lists can share their parts, so that a short template compares for ever: every
// comparison counts, and what is one and the same is not looked into.
#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

bool equal_texts(Runtime& runtime, const std::string& left, const std::string& right) {
  if (left.size() != right.size()) {
    return false;
  }
  runtime.count_reading(left.size());
  return left == right;
}

bool equal_items(Runtime& runtime, const Sequence& left, const Sequence& right) {
  if (left.kind != right.kind || left.items.size() != right.items.size() ||
      left.kind == SequenceKind::generator) {
    return false;
  }
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(),
                    [&](const Value& first, const Value& second) { return equal(runtime, first, second); });
}

bool equal_dicts(Runtime& runtime, const Dict& left, const Dict& right) {
  if (left.items().size() != right.items().size()) {
    return false;
  }
  return std::all_of(left.items().begin(), left.items().end(), [&](const auto& item) {
    const Value* other = find_member(runtime, right, item.first);
    return other != nullptr && equal(runtime, item.second, *other);
  });
}

// The index of the key; the number of members if it is not there.
size_t find_index(Runtime& runtime, const Dict& dict, const Value& key) {
  runtime.count_names(dict.items().size());
  auto found = std::find_if(dict.items().begin(), dict.items().end(),
                            [&](const auto& item) { return equal(runtime, item.first, key); });
  return static_cast<size_t>(found - dict.items().begin());
}

}  // namespace

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    runtime.count_names(1);
    return left.is_integral() && right.is_integral() ? left.integer() == right.integer()
                                                     : left.real() == right.real();
  }
  if (left.is_shared_with(right)) {
    return true;
  }
  runtime.count_names(1);
  if (left.is_string() && right.is_string()) {
    return equal_texts(runtime, left.string(), right.string());
  }
  if (left.is_sequence() && right.is_sequence()) {
    runtime.count_steps(1);
    return equal_items(runtime, left.sequence(), right.sequence());
  }
  if (left.is_dict() && right.is_dict()) {
    runtime.count_steps(1);
    return equal_dicts(runtime, left.dict(), right.dict());
  }
  if (left.is_object() && right.is_object()) {
    return &left.object() == &right.object();
  }
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
  runtime.count_steps(1);
  if (left.is_integral() && right.is_integral()) {
    return left.integer() < right.integer();
  }
  if (left.is_number() && right.is_number()) {
    return left.real() < right.real();
  }
  if (left.is_string() && right.is_string()) {
    runtime.count_reading(std::min(left.string().size(), right.string().size()));
    return left.string() < right.string();  // the order of UTF-8 bytes is that of the characters
  }
  if (is_list_or_tuple(left) && right.is_sequence(left.sequence().kind)) {
    DepthGuard guard(runtime);
    const std::vector<Value>& first = left.sequence().items;
    const std::vector<Value>& second = right.sequence().items;
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      if (!equal(runtime, first[i], second[i])) {
        return less(runtime, first[i], second[i]);
      }
    }
    return first.size() < second.size();
  }
  fail_types(runtime, Operator::less, left, right);
}

bool compare(Runtime& runtime, Operator operation, const Value& left, const Value& right) {
  switch (operation) {
    case Operator::equal:
      return equal(runtime, left, right);
    case Operator::not_equal:
      return !equal(runtime, left, right);
    case Operator::less:
      return less(runtime, left, right);
    case Operator::greater:
      return less(runtime, right, left);
    case Operator::less_equal:
      return less(runtime, left, right) || equal(runtime, left, right);
    case Operator::greater_equal:
      return less(runtime, right, left) || equal(runtime, left, right);
    case Operator::in:
      return contains(runtime, right, left);
    default:
      return !contains(runtime, right, left);
  }
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_undefined()) {
    return false;
  }
  if (container.is_string()) {
    if (!item.is_string()) {
      fail_types(runtime, Operator::in, item, container);
    }
    return find_text(runtime, container.string(), item.string()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    return find_member(runtime, container.dict(), item) != nullptr;
  }
  if (!container.is_sequence()) {
    fail_types(runtime, Operator::in, item, container);
  }
  std::vector<Value> items = iterate(runtime, container);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& member) { return equal(runtime, member, item); });
}

const Value* find_member(Runtime& runtime, const Dict& dict, const Value& key) {
  size_t index = find_index(runtime, dict, key);
  return index < dict.items().size() ? &dict.items()[index].second : nullptr;
}

void set_member(Runtime& runtime, Dict& dict, Value key, Value value) {
  size_t index = find_index(runtime, dict, key);
  if (index < dict.items().size()) {
    dict.replace(index, std::move(value));
  } else {
    runtime.count_items(2);
    dict.append(std::move(key), std::move(value));
  }
}

}  // namespace snug::jinja
