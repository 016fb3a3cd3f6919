// Reads a template's source into statements and expressions.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/syntax.h"

namespace snug::jinja {

// `name` is for messages. Throws bad_input with name, line and column, naming a construct that is unknown or
// not supported.
Template parse_template(std::string_view source, std::string name);

}  // namespace snug::jinja
