// What a YAML scalar's text means: numbers, whole numbers, true and false. Nothing where it means none of it.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace snug {

template <typename Number>
std::optional<Number> parse_whole_text(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);  // from_chars knows no plus sign
  }
  Number number = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || status != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

// "3", "0.1", "1e-4"; not "inf", not "nan".
inline std::optional<double> parse_number(std::string_view text) {
  std::optional<double> number = parse_whole_text<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

// "3"; not "3.0", not "3e0".
inline std::optional<int64_t> parse_integer(std::string_view text) {
  return parse_whole_text<int64_t>(text);
}

inline std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true") {
    return true;
  }
  return text == "false" ? std::optional(false) : std::nullopt;
}

}  // namespace snug
