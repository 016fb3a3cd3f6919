// The methods of Python's strings.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace snug::jinja {

// Null if there is no such method, or it is not supported.
using StringMethod = Value (*)(Runtime& runtime, const Value& text, Arguments arguments);
StringMethod find_string_method(std::string_view name);

}  // namespace snug::jinja
