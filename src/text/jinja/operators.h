// Python's operators, as far as templates use them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace snug::jinja {

Value arithmetic(Runtime& runtime, Operator operation, const Value& left, const Value& right);
Value negative(Runtime& runtime, const Value& value);

bool compare(Runtime& runtime, Operator operation, const Value& left, const Value& right);
bool equal(Runtime& runtime, const Value& left, const Value& right);
bool less(Runtime& runtime, const Value& left, const Value& right);
bool contains(Runtime& runtime, const Value& container, const Value& item);
bool is_list_or_tuple(const Value& value);
[[noreturn]] void fail_types(const Runtime& runtime, Operator operation, const Value& left,
                             const Value& right);

// A dict's member of any key; null if there is none.
const Value* find_member(Runtime& runtime, const Dict& dict, const Value& key);
void set_member(Runtime& runtime, Dict& dict, Value key, Value value);

// object.name: a method or attribute first, then an item; else undefined.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
// object[key]: an item first, then an attribute; else undefined.
Value get_item(Runtime& runtime, const Value& object, const Value& key);

struct SliceBounds {
  Value first;
  Value last;
  Value step;
};
Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

// The items that a loop over the value goes through: characters of a string, keys of a dict. A generator is
// empty afterwards.
std::vector<Value> iterate(Runtime& runtime, const Value& value);
// Fails for what has none.
int64_t length(Runtime& runtime, const Value& value);
void require_defined(const Runtime& runtime, const Value& value);
Value call_value(Runtime& runtime, const Value& callee, Arguments arguments);

}  // namespace snug::jinja
