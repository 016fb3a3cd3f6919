// Byte counts as people write and read them.
#include "base/bytes.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace snug {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 14> kUnits = {{
    {"", 1},
    {"b", 1},
    {"k", 1e3},
    {"m", 1e6},
    {"g", 1e9},  // some tools mean GiB by it: the smaller reading is the safe one for a limit
    {"t", 1e12},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
    {"kib", 0x1p10},
    {"mib", 0x1p20},
    {"gib", 0x1p30},
    {"tib", 0x1p40},
}};

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || !(number >= 0)) {
    return std::nullopt;
  }
  std::string unit;
  for (const char* p = end; p != text.data() + text.size(); ++p) {
    if (*p != ' ') {
      unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*p)));
    }
  }
  for (const auto& [name, factor] : kUnits) {
    if (unit == name) {
      double bytes = std::round(number * factor);
      return bytes < 0x1p62 ? std::optional(static_cast<int64_t>(bytes)) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::string format_bytes(int64_t bytes) {
  std::array<char, 48> text{};
  double magnitude = std::abs(static_cast<double>(bytes));
  auto value = static_cast<double>(bytes);
  if (magnitude >= 0x1p30) {
    std::snprintf(text.data(), text.size(), "%.2f GiB", value / 0x1p30);
  } else if (magnitude >= 0x1p20) {
    std::snprintf(text.data(), text.size(), "%.1f MiB", value / 0x1p20);
  } else if (magnitude >= 0x1p10) {
    std::snprintf(text.data(), text.size(), "%.1f KiB", value / 0x1p10);
  } else {
    std::snprintf(text.data(), text.size(), "%lld B", static_cast<long long>(bytes));
  }
  return text.data();
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  size_t first = digits.front() == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

}  // namespace snug
