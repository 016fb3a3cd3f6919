// The escapes in a template's string literals, which are Python's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace snug::jinja {

// `literal` is what stands between the quotes. Nothing for an escape that is damaged, names a lone surrogate,
// or is \N{...}.
std::optional<std::string> decode_string_literal(std::string_view literal);

}  // namespace snug::jinja
