// The methods of lists, dicts and numbers, and which methods there are at all. Those that would change a
// value are refused, as in the sandbox that transformers runs templates in.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "io/printable.h"
#include "text/jinja/builders.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_methods.h"

namespace snug::jinja {

namespace {

constexpr std::array<std::string_view, 11> kDictMethods = {
    "clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"};
constexpr std::array<std::string_view, 11> kListMethods = {
    "append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"};
// Methods of strings that are not supported, so that using one says so and not that it is undefined.
constexpr std::array<std::string_view, 14> kOtherStringMethods = {
    "casefold",  "center",      "encode",  "expandtabs", "format_map", "isascii",   "isidentifier",
    "isnumeric", "isprintable", "istitle", "maketrans",  "swapcase",   "translate", "isidentifier"};
constexpr std::array<std::string_view, 13> kChanging = {"append",  "clear",  "extend",  "insert",     "pop",
                                                        "popitem", "remove", "reverse", "setdefault", "sort",
                                                        "update",  "add",    "discard"};

template <typename Names>
bool holds(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value dict_view(Runtime& runtime, const Dict& dict, std::string_view what) {
  if (what == "items") {
    return Value::sequence(SequenceKind::view, pairs_of(runtime, dict));
  }
  ListBuilder members(runtime);
  for (const auto& [key, value] : dict.items()) {
    members.append(what == "keys" ? key : value);
  }
  return members.value(SequenceKind::view);
}

Value call_dict_method(Runtime& runtime, const Value& object, std::string_view name, Arguments arguments) {
  const Dict& dict = object.dict();
  if (name == "get") {
    Bound bound(runtime, "get", std::move(arguments), {"key", "default"}, 1);
    const Value* found = find_member(runtime, dict, bound[0]);
    if (found != nullptr) {
      return *found;
    }
    return bound.has(1) ? bound[1] : Value();
  }
  Bound bound(runtime, name, std::move(arguments), {});
  if (name == "copy") {
    return object;
  }
  return dict_view(runtime, dict, name);
}

Value call_sequence_method(Runtime& runtime, const Value& object, std::string_view name,
                           Arguments arguments) {
  const std::vector<Value>& items = object.sequence().items;
  if (name == "copy") {
    return object;
  }
  Bound bound(runtime, name, std::move(arguments), {"value"}, 1);
  auto is_it = [&](const Value& item) { return equal(runtime, item, bound[0]); };
  if (name == "count") {
    return Value(static_cast<int64_t>(std::count_if(items.begin(), items.end(), is_it)));
  }
  auto found = std::find_if(items.begin(), items.end(), is_it);
  if (found == items.end()) {
    runtime.fail("index() did not find the value it looks for");
  }
  return Value(static_cast<int64_t>(found - items.begin()));
}

}  // namespace

std::vector<Value> pairs_of(Runtime& runtime, const Dict& dict) {
  runtime.count_items(4 * dict.items().size());  // two in each, and what holds them
  std::vector<Value> pairs;
  pairs.reserve(dict.items().size());
  for (const auto& [key, value] : dict.items()) {
    pairs.push_back(Value::sequence(SequenceKind::tuple, {key, value}));
  }
  return pairs;
}

bool has_method(const Value& object, std::string_view name) {
  if (object.is_string()) {
    return find_string_method(name) != nullptr || holds(kOtherStringMethods, name);
  }
  if (object.is_dict()) {
    return holds(kDictMethods, name);
  }
  if (object.is_sequence(SequenceKind::list)) {
    return holds(kListMethods, name);
  }
  return object.is_sequence(SequenceKind::tuple) && (name == "count" || name == "index");
}

Value call_method(Runtime& runtime, const Value& object, std::string_view name, Arguments arguments) {
  if (!object.is_string() && holds(kChanging, name)) {
    runtime.fail(
        fmt::format("the template calls {}.{}(), which would change a value; templates may not do that",
                    object.type_name(), name));
  }
  if (object.is_string()) {
    if (StringMethod method = find_string_method(name)) {
      runtime.count_reading(object.string().size());
      return method(runtime, object, std::move(arguments));
    }
  } else if (object.is_dict() && name != "fromkeys") {
    return call_dict_method(runtime, object, name, std::move(arguments));
  } else if (object.is_sequence()) {
    return call_sequence_method(runtime, object, name, std::move(arguments));
  }
  runtime.fail_unsupported(fmt::format("the method '{}' of {}", printable(name, 40), object.type_name()));
}

}  // namespace snug::jinja
