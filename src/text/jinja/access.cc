// Attributes, items, slices and the items of a loop.
#include <fmt/format.h>

#include <algorithm>

#include "io/printable.h"
#include "text/jinja/builders.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

// A method that is not called at once: message.items, say, where "items" was meant as a key.
class BoundMethod : public Callable {
 public:
  BoundMethod(Value object, std::string_view name) : object_(std::move(object)), name_(name) {}
  std::string_view type_name() const override { return "method"; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return call_method(runtime, object_, name_, std::move(arguments));
  }

 private:
  Value object_;
  std::string name_;
};

std::optional<Value> find_own_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_object()) {
    return object.object().attribute(runtime, name);
  }
  if (has_method(object, name)) {
    return Value(runtime.make<BoundMethod>(object, name));
  }
  return std::nullopt;
}

std::optional<Value> find_position(Runtime& runtime, const Value& object, int64_t index) {
  bool has_positions = object.is_string() || object.is_sequence(SequenceKind::list) ||
                       object.is_sequence(SequenceKind::tuple) || object.is_sequence(SequenceKind::range);
  if (!has_positions) {
    return std::nullopt;
  }
  int64_t size = length(runtime, object);
  index += index < 0 ? size : 0;
  if (index < 0 || index >= size) {
    return std::nullopt;
  }
  if (object.is_sequence()) {
    return object.sequence().items[static_cast<size_t>(index)];
  }
  std::string_view text = object.string();
  runtime.count_reading(text.size());
  text.remove_prefix(byte_of_character(text, index));
  return runtime.text(take_character(text));
}

std::optional<Value> find_own_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_dict()) {
    const Value* found = find_member(runtime, object.dict(), key);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  return key.is_integral() ? find_position(runtime, object, key.integer()) : std::nullopt;
}

Value missing(Runtime& runtime, const Value& object, const std::string& key) {
  return runtime.undefined(fmt::format("'{}' has no attribute or item {}", object.type_name(), key));
}

}  // namespace

void require_defined(const Runtime& runtime, const Value& value) {
  if (value.is_undefined()) {
    runtime.fail(value.undefined_reason());
  }
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  require_defined(runtime, object);
  if (auto found = find_own_attribute(runtime, object, name)) {
    return std::move(*found);
  }
  if (object.is_dict()) {
    runtime.count_names(object.dict().items().size());
    runtime.count_reading(name.size() * object.dict().items().size());
    if (const Value* found = object.dict().find(name)) {
      return *found;
    }
  }
  return missing(runtime, object, in_quotes(name, 60));
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  require_defined(runtime, object);
  if (auto found = find_own_item(runtime, object, key)) {
    return std::move(*found);
  }
  if (key.is_string()) {
    if (auto found = find_own_attribute(runtime, object, key.string())) {
      return std::move(*found);
    }
    return missing(runtime, object, in_quotes(key.string(), 60));
  }
  return missing(
      runtime, object,
      key.is_integral() ? fmt::format("{}", key.integer()) : fmt::format("of the type {}", key.type_name()));
}

Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  require_defined(runtime, object);
  auto integer = [&](const Value& bound, int64_t fallback) {
    if (bound.is_none()) {
      return fallback;
    }
    require_defined(runtime, bound);
    if (!bound.is_integral()) {
      runtime.fail(fmt::format("a slice needs integers, not {}", bound.type_name()));
    }
    return bound.integer();
  };
  if (!object.is_string() && !object.is_sequence(SequenceKind::list) &&
      !object.is_sequence(SequenceKind::tuple) && !object.is_sequence(SequenceKind::range)) {
    return missing(runtime, object, "for a slice");
  }
  int64_t step = integer(bounds.step, 1);
  if (step == 0) {
    runtime.fail("the step of a slice is zero");
  }
  int64_t size = length(runtime, object);
  auto clamped = [&](const Value& bound, int64_t fallback) {
    int64_t position = integer(bound, fallback);
    if (!bound.is_none() && position < 0) {
      position = position < -size ? -1 - (step > 0 ? -1 : 0) : position + size;
    }
    return step > 0 ? std::clamp<int64_t>(position, 0, size) : std::clamp<int64_t>(position, -1, size - 1);
  };
  int64_t first = clamped(bounds.first, step > 0 ? 0 : size - 1);
  int64_t last = clamped(bounds.last, step > 0 ? size : -1);
  if (object.is_string() && step == 1) {
    std::string_view rest = object.string();
    runtime.count_reading(rest.size());
    rest.remove_prefix(byte_of_character(rest, first));
    return runtime.text(rest.substr(0, byte_of_character(rest, std::max<int64_t>(last - first, 0))));
  }
  std::vector<Value> letters;
  if (object.is_string()) {
    letters = iterate(runtime, object);
  }
  const std::vector<Value>& all = object.is_string() ? letters : object.sequence().items;
  ListBuilder taken(runtime);
  TextBuilder joined(runtime);
  for (int64_t i = first; step > 0 ? i < last : i > last;) {
    const Value& item = all[static_cast<size_t>(i)];
    object.is_string() ? joined.append(item.string()) : taken.append(item);
    if (__builtin_add_overflow(i, step, &i)) {
      break;
    }
  }
  return object.is_string() ? joined.value() : taken.value(object.sequence().kind);
}

std::vector<Value> iterate(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (value.is_sequence()) {
    Sequence& sequence = value.sequence();
    runtime.count_items(sequence.items.size());
    return sequence.kind == SequenceKind::generator ? std::exchange(sequence.items, {}) : sequence.items;
  }
  if (value.is_dict()) {
    runtime.count_items(value.dict().items().size());
    for (const auto& [key, member] : value.dict().items()) {
      items.push_back(key);
    }
  } else if (value.is_string()) {
    for (std::string_view rest = value.string(); !rest.empty();) {
      runtime.count_items(1);
      items.push_back(runtime.text(take_character(rest)));
    }
  } else if (!value.is_undefined()) {
    runtime.fail(fmt::format("{} cannot be looped over", value.type_name()));
  }
  return items;
}

int64_t length(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) {
    return 0;
  }
  if (value.is_string()) {
    runtime.count_reading(value.string().size());
    return count_characters(value.string());
  }
  if (value.is_dict()) {
    return static_cast<int64_t>(value.dict().items().size());
  }
  if (!value.is_sequence() || value.sequence().kind == SequenceKind::generator) {
    runtime.fail(fmt::format("{} has no length", value.type_name()));
  }
  return static_cast<int64_t>(value.sequence().items.size());
}

Value call_value(Runtime& runtime, const Value& callee, Arguments arguments) {
  require_defined(runtime, callee);
  Callable* callable = callee.is_object() ? callee.object().callable() : nullptr;
  if (callable == nullptr) {
    runtime.fail(fmt::format("{} cannot be called", callee.type_name()));
  }
  return callable->call(runtime, std::move(arguments));
}

}  // namespace snug::jinja
