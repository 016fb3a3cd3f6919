// The methods of Python's strings.
#include "text/jinja/string_methods.h"

#include <algorithm>
#include <unordered_map>

#include "text/jinja/builders.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

template <bool left, bool right>
Value strip_method(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "strip", std::move(arguments), {"chars"});
  std::optional<CharacterSet> characters;
  if (bound.has_value(0)) {
    characters.emplace(runtime, bound.string(0));
  }
  constexpr StripSides kSides = {.left = left, .right = right};
  return runtime.text(strip(text.string(), kSides, characters ? &*characters : nullptr), text.is_safe());
}

template <void (*function)(TextBuilder&, std::string_view)>
Value map_method(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "method", std::move(arguments), {});
  TextBuilder out(runtime);
  function(out, text.string());
  return out.value();
}

template <CharacterTest test>
Value character_test(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "method", std::move(arguments), {});
  return Value(all_characters(text.string(), test));
}

template <bool from_right>
Value split_method(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "split", std::move(arguments), {"sep", "maxsplit"});
  std::optional<std::string_view> separator;
  if (bound.has_value(0)) {
    separator = bound.string(0);
    if (separator->empty()) {
      runtime.fail("split() needs a separator that is not empty");
    }
  }
  int64_t limit = bound.integer(1, -1);
  ListBuilder out(runtime);
  (from_right ? split_from_right : split)(out, text.string(), separator, limit);
  return out.value();
}

Value splitlines(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "splitlines", std::move(arguments), {"keepends"});
  ListBuilder out(runtime);
  for (std::string_view rest = text.string(); !rest.empty();) {
    out.append_text(take_line(rest, bound.truth(0, false)));
  }
  return out.value();
}

template <bool from_right>
Value partition(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "partition", std::move(arguments), {"sep"}, 1);
  const std::string& separator = bound.string(0);
  if (separator.empty()) {
    runtime.fail("partition() needs a separator that is not empty");
  }
  std::string_view all = text.string();
  size_t found = (from_right ? find_last_text : find_text)(runtime, all, separator);
  std::vector<Value> parts;
  if (found == std::string::npos) {
    parts = {text, Value(""), Value("")};
    if (from_right) {
      std::swap(parts[0], parts[2]);
    }
  } else {
    parts = {runtime.text(all.substr(0, found)), bound[0],
             runtime.text(all.substr(found + separator.size()))};
  }
  return Value::sequence(SequenceKind::tuple, std::move(parts));
}

// The part of the text between two positions, counted in characters, negative ones from the end.
Value part_between(Runtime& runtime, const Value& text, const Bound& bound) {
  if (!bound.has_value(1) && !bound.has_value(2)) {
    return text;
  }
  return get_slice(
      runtime, text,
      {.first = bound.has(1) ? bound[1] : Value(), .last = bound.has(2) ? bound[2] : Value(), .step = {}});
}

template <bool at_end>
Value has_affix(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, at_end ? "endswith" : "startswith", std::move(arguments), {"prefix", "start", "end"},
              1);
  Value part = part_between(runtime, text, bound);
  auto holds = [&](const Value& affix) {
    if (!affix.is_string()) {
      require_defined(runtime, affix);
      runtime.fail("startswith() and endswith() need a string, or a tuple of strings");
    }
    runtime.count_names(1);
    runtime.count_reading(std::min(affix.string().size(), part.string().size()));
    return at_end ? part.string().ends_with(affix.string()) : part.string().starts_with(affix.string());
  };
  if (!bound[0].is_sequence(SequenceKind::tuple)) {
    return Value(holds(bound[0]));
  }
  const std::vector<Value>& affixes = bound[0].sequence().items;
  return Value(std::any_of(affixes.begin(), affixes.end(), holds));
}

template <bool from_right, bool must_be_there>
Value find_method(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "find", std::move(arguments), {"sub", "start", "end"}, 1);
  if (bound.has_value(1) || bound.has_value(2)) {
    runtime.fail_unsupported("the method 'find' with a range");
  }
  std::string_view all = text.string();
  size_t found = (from_right ? find_last_text : find_text)(runtime, all, bound.string(0));
  if (found == std::string::npos) {
    if (must_be_there) {
      runtime.fail("index() did not find the text it looks for");
    }
    return Value(int64_t{-1});
  }
  return Value(count_characters(all.substr(0, found)));
}

Value count_method(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "count", std::move(arguments), {"sub", "start", "end"}, 1);
  return Value(count_occurrences(runtime, part_between(runtime, text, bound).string(), bound.string(0)));
}

Value replace_method(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "replace", std::move(arguments), {"old", "new", "count"}, 2);
  TextBuilder out(runtime);
  append_replaced(out, text.string(), bound.string(0), bound.string(1), bound.integer(2, -1));
  return out.value();
}

Value join_method(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "join", std::move(arguments), {"iterable"}, 1);
  TextBuilder out(runtime);
  bool is_first = true;
  for (const Value& item : iterate(runtime, bound[0])) {
    if (!item.is_string()) {
      runtime.fail("join() needs strings");
    }
    out.append(std::exchange(is_first, false) ? "" : text.string());
    out.append(item.string());
  }
  return out.value();
}

Value removeprefix(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "removeprefix", std::move(arguments), {"prefix"}, 1);
  size_t skipped = text.string().starts_with(bound.string(0)) ? bound.string(0).size() : 0;
  return runtime.text(std::string_view(text.string()).substr(skipped));
}

Value removesuffix(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "removesuffix", std::move(arguments), {"suffix"}, 1);
  size_t skipped = text.string().ends_with(bound.string(0)) ? bound.string(0).size() : 0;
  return runtime.text(std::string_view(text.string()).substr(0, text.string().size() - skipped));
}

enum class Align : uint8_t { left, right, zeros };

template <Align align>
Value pad(Runtime& runtime, const Value& text, Arguments arguments) {
  Bound bound(runtime, "justify", std::move(arguments), {"width", "fillchar"}, 1);
  int64_t width = bound.integer(0, 0);
  int64_t own_width = count_characters(text.string());
  if (width <= own_width) {
    return text;
  }
  std::string_view fill = align == Align::zeros ? "0"
                          : bound.has(1)        ? std::string_view(bound.string(1))
                                                : " ";
  std::string_view all = text.string();
  TextBuilder out(runtime);
  if (align == Align::zeros && (all.starts_with('-') || all.starts_with('+'))) {
    out.append(all[0]);
    all.remove_prefix(1);
  }
  out.append(align == Align::left ? all : "");
  out.append_repeated(fill, static_cast<size_t>(width - own_width));
  out.append(align == Align::left ? "" : all);
  return out.value();
}

Value format_method(Runtime& runtime, const Value& text, Arguments arguments) {
  return format_braces(runtime, text.string(), std::move(arguments));
}

}  // namespace

StringMethod find_string_method(std::string_view name) {
  static const std::unordered_map<std::string_view, StringMethod> kMethods = {
      {"capitalize", map_method<append_capitalized>},
      {"count", count_method},
      {"endswith", has_affix<true>},
      {"find", find_method<false, false>},
      {"format", format_method},
      {"index", find_method<false, true>},
      {"isalnum", character_test<CharacterTest::letter_or_digit>},
      {"isalpha", character_test<CharacterTest::letter>},
      {"isdecimal", character_test<CharacterTest::digit>},
      {"isdigit", character_test<CharacterTest::digit>},
      {"islower", character_test<CharacterTest::lower>},
      {"isspace", character_test<CharacterTest::space>},
      {"isupper", character_test<CharacterTest::upper>},
      {"join", join_method},
      {"ljust", pad<Align::left>},
      {"lower", map_method<append_lower>},
      {"lstrip", strip_method<true, false>},
      {"partition", partition<false>},
      {"removeprefix", removeprefix},
      {"removesuffix", removesuffix},
      {"replace", replace_method},
      {"rfind", find_method<true, false>},
      {"rindex", find_method<true, true>},
      {"rjust", pad<Align::right>},
      {"rpartition", partition<true>},
      {"rsplit", split_method<true>},
      {"rstrip", strip_method<false, true>},
      {"split", split_method<false>},
      {"splitlines", splitlines},
      {"startswith", has_affix<false>},
      {"strip", strip_method<true, true>},
      {"title", map_method<append_title>},
      {"upper", map_method<append_upper>},
      {"zfill", pad<Align::zeros>},
  };
  auto found = kMethods.find(name);
  return found == kMethods.end() ? nullptr : found->second;
}

}  // namespace snug::jinja
