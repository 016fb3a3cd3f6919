// Values as text: str(), repr() and json.dumps() of Python.
#pragma once

#include <string>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace snug::jinja {

std::string to_text(Runtime& runtime, const Value& value);
std::string to_repr(Runtime& runtime, const Value& value);
std::string real_to_text(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace snug::jinja
