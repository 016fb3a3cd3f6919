// What Jinja and transformers bring along: filters, tests, methods of Python's types, global functions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace snug::jinja {

using FilterFunction = Value (*)(Runtime& runtime, const Value& input, Arguments arguments);

// Each fails, naming it, if there is no such filter, test or method.
Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, Arguments arguments);
bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);
Value call_method(Runtime& runtime, const Value& object, std::string_view name, Arguments arguments);

bool has_filter(std::string_view name);
bool has_test(std::string_view name);
// True for every method that the Python type has, also those that are not supported here.
bool has_method(const Value& object, std::string_view name);

// The tables' parts, one a file.
FilterFunction find_text_filter(std::string_view name);
FilterFunction find_sequence_filter(std::string_view name);

// A dict's members as tuples.
std::vector<Value> pairs_of(Runtime& runtime, const Dict& dict);

// Null if it is not a global name.
std::optional<Value> find_global(Runtime& runtime, std::string_view name);

// A namespace's attributes are the one thing that a template can change.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "namespace"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  void set(Runtime& runtime, std::string_view name, Value value);

 private:
  Dict members_;
};

// str.format() and the operator %, for the usual conversions.
Value format_braces(Runtime& runtime, std::string_view format, Arguments arguments);
Value format_percent(Runtime& runtime, std::string_view format, const Value& arguments);

}  // namespace snug::jinja
