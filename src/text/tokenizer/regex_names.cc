// Names of character classes in regular expressions that must mean the same with every version of Oniguruma.
#include "text/tokenizer/regex_names.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "text/unicode/ranges.h"

namespace snug {

namespace {

// The categories that have newer characters, and Cn, which loses them. The library takes 20 names.
constexpr const char* kNames[] = {"L",  "Lu", "Ll", "Lm", "Lo", "M",  "Mn", "Mc", "N",  "Nd",
                                  "No", "P",  "Pd", "Po", "S",  "Sm", "So", "C",  "Cf", "Cn"};

// Sorted and apart, each inclusive.
using Ranges = std::vector<CodepointRange>;

Ranges ranges_of_library(std::string_view name) {
  OnigEncoding utf8 = ONIG_ENCODING_UTF8;
  std::string text(name);
  auto* begin = reinterpret_cast<OnigUChar*>(text.data());
  int type = utf8->property_name_to_ctype(utf8, begin, begin + text.size());
  OnigCodePoint single_bytes = 0;
  const OnigCodePoint* found = nullptr;
  if (type < 0 || utf8->get_ctype_code_range(static_cast<OnigCtype>(type), &single_bytes, &found) != 0) {
    throw environment_error(
        fmt::format("Oniguruma {} does not know the characters of \\p{{{}}}. Install libonig 6.9.8 or newer.",
                    onig_version(), name));
  }
  Ranges ranges;
  for (OnigCodePoint i = 0; i < found[0]; ++i) {
    ranges.push_back({found[1 + 2 * i], found[2 + 2 * i]});
  }
  return ranges;
}

// What is left of the ranges without newer characters.
Ranges without_newer(const Ranges& ranges) {
  Ranges result;
  for (CodepointRange range : ranges) {
    for (const CategoryRange& newer : newer_characters()) {
      if (newer.last < range.first || newer.first > range.last) {
        continue;
      }
      if (newer.first > range.first) {
        result.push_back({range.first, newer.first - 1});
      }
      range.first = newer.last + 1;
    }
    if (range.first <= range.last) {
      result.push_back(range);
    }
  }
  return result;
}

// As the library wants them: their number, then each one's ends. Neighbours are joined.
std::vector<OnigCodePoint> as_table(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CodepointRange& a, const CodepointRange& b) { return a.first < b.first; });
  std::vector<OnigCodePoint> table{0};
  for (const CodepointRange& range : ranges) {
    if (table.size() > 1 && table.back() + 1 == range.first) {
      table.back() = range.last;
    } else {
      table.insert(table.end(), {range.first, range.last});
    }
  }
  table[0] = static_cast<OnigCodePoint>(table.size() / 2);
  return table;
}

}  // namespace

void define_newer_characters() {
  static std::vector<std::vector<OnigCodePoint>> tables;  // the library keeps pointers into them
  for (std::string_view name : kNames) {
    Ranges ranges = without_newer(ranges_of_library(name));
    for (const CategoryRange& newer : newer_characters()) {
      if (std::string_view(newer.category).starts_with(name)) {
        ranges.push_back({newer.first, newer.last});
      }
    }
    tables.push_back(as_table(std::move(ranges)));
    if (onig_unicode_define_user_property(name.data(), tables.back().data()) != ONIG_NORMAL) {
      throw environment_error(
          fmt::format("Oniguruma {} does not take the characters of \\p{{{}}}.", onig_version(), name));
    }
  }
}

std::string with_signs_by_name(std::string_view pattern) {
  std::string result;
  int depth = 0;  // of classes in classes
  for (size_t i = 0; i < pattern.size(); ++i) {
    std::string_view rest = pattern.substr(i);
    if (depth > 0 && rest.starts_with("[:punct:]")) {
      result += "[\\p{P}\\p{S}]";
      i += 8;
    } else if (depth > 0 && rest.starts_with("[:^punct:]")) {
      result += "[^\\p{P}\\p{S}]";
      i += 9;
    } else if (rest.starts_with('\\') && rest.size() > 1) {
      result += rest.substr(0, 2);
      ++i;
    } else {
      // A bracket that closes right where its class opens stands for itself.
      bool opens = rest.starts_with('[');
      size_t sign = opens && rest.substr(1).starts_with('^') ? 2 : 1;
      size_t taken = opens && rest.substr(sign).starts_with(']') ? sign + 1 : 1;
      depth += opens ? 1 : rest.starts_with(']') && depth > 0 ? -1 : 0;
      result += rest.substr(0, taken);
      i += taken - 1;
    }
  }
  return result;
}

}  // namespace snug
