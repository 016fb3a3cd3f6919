// A conversation as values that a template can use.
#pragma once

#include <string>
#include <vector>

#include "io/json.h"
#include "text/jinja/value.h"

namespace snug {

jinja::Value to_template_value(const Json& document);

// Checks that it is a list of objects; `name` is the template's, for messages.
std::vector<jinja::Value> to_template_messages(const Json& messages, const std::string& name);

}  // namespace snug
