// Values as text: str(), repr() and json.dumps() of Python.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/builders.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace snug::jinja {

void append_text(TextBuilder& out, const Value& value);
void append_repr(TextBuilder& out, const Value& value);
// A string: the value itself if it is one.
Value to_text(Runtime& runtime, const Value& value);
Value to_repr(Runtime& runtime, const Value& value);
std::string real_to_text(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string_view indent;
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
};
void append_json(TextBuilder& out, const Value& value, const JsonStyle& style);

}  // namespace snug::jinja
