// The table of filters, and those that work on text and single values.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "io/printable.h"
#include "text/jinja/builders.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

Value trim(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "trim", std::move(arguments), {"chars"});
  Value text = to_text(runtime, input);
  std::optional<CharacterSet> characters;
  if (bound.has_value(0)) {
    characters.emplace(runtime, bound.string(0));
  }
  return runtime.text(strip(text.string(), {}, characters ? &*characters : nullptr), input.is_safe());
}

// A filter that maps text to text and takes no arguments.
template <void (*function)(TextBuilder&, std::string_view)>
Value map_text(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "filter", std::move(arguments), {});
  TextBuilder out(runtime);
  function(out, to_text(runtime, input).string());
  return out.value();
}

Value to_string(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "string", std::move(arguments), {});
  return to_text(runtime, input);
}

Value safe(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "safe", std::move(arguments), {});
  return runtime.text(to_text(runtime, input).string(), true);
}

Value escape(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "escape", std::move(arguments), {});
  if (input.is_safe()) {
    return input;
  }
  TextBuilder out(runtime);
  append_escaped_html(out, to_text(runtime, input).string());
  return out.value(true);
}

Value fallback(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "default", std::move(arguments), {"default_value", "boolean"});
  if (input.is_undefined() || (bound.truth(1, false) && !input.truth())) {
    return bound.has(0) ? bound[0] : Value("");
  }
  return input;
}

Value replace_filter(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "replace", std::move(arguments), {"old", "new", "count"}, 2);
  int64_t limit = bound.has_value(2) ? bound.integer(2, -1) : -1;
  TextBuilder out(runtime);
  append_replaced(out, to_text(runtime, input).string(), to_text(runtime, bound[0]).string(),
                  to_text(runtime, bound[1]).string(), limit);
  return out.value();
}

Value tojson(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "tojson", std::move(arguments), {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  std::string spaces;
  std::vector<Value> parts;  // the separators, which the style points to
  style.ensure_ascii = bound.truth(0, false);
  style.sort_keys = bound.truth(3, false);
  if (bound.has_value(1)) {
    style.indented = true;
    style.item_separator = ",";
    if (!bound[1].is_string()) {
      spaces.assign(static_cast<size_t>(std::clamp<int64_t>(bound.integer(1, 0), 0, 100)), ' ');
    }
    style.indent = bound[1].is_string() ? bound.string(1) : spaces;
  }
  if (bound.has_value(2)) {
    parts = iterate(runtime, bound[2]);
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string()) {
      runtime.fail("tojson() needs two strings for 'separators'");
    }
    style.item_separator = parts[0].string();
    style.key_separator = parts[1].string();
  }
  TextBuilder out(runtime);
  append_json(out, input, style);
  return out.value();
}

Value indent(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "indent", std::move(arguments), {"width", "first", "blank"});
  std::string spaces(4, ' ');
  if (bound.has(0) && !bound[0].is_string()) {
    spaces.assign(static_cast<size_t>(std::clamp<int64_t>(bound.integer(0, 4), 0, 1000)), ' ');
  }
  std::string_view prefix = bound.has(0) && bound[0].is_string() ? bound.string(0) : spaces;
  bool blank = bound.truth(2, false);
  Value text = to_text(runtime, input);
  std::string_view rest = text.string();
  TextBuilder out(runtime);
  out.append(bound.truth(1, false) ? prefix : "");
  for (bool is_first = true, has_end = true; has_end; is_first = false) {
    size_t before = rest.size();
    std::string_view line = take_line(rest, false);
    has_end = before - rest.size() > line.size();
    out.append(is_first ? "" : "\n");
    out.append(!is_first && (blank || !line.empty()) ? prefix : "");
    out.append(line);
  }
  return out.value();
}

std::optional<double> parse_real(std::string_view text) {
  text = strip(text);
  text.remove_prefix(text.starts_with('+') ? 1 : 0);
  double value = 0;
  auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  return whole && !text.empty() ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> real_to_integer(double value) {
  bool fits = std::isfinite(value) && std::abs(value) < 0x1p63;
  return fits ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

std::optional<int64_t> parse_integer(std::string_view text, int base) {
  text = strip(text);
  text.remove_prefix(text.starts_with('+') ? 1 : 0);
  std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  text.remove_prefix(!prefix.empty() && text.starts_with(prefix) ? prefix.size() : 0);
  int64_t value = 0;
  auto result = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (!text.empty() && result.ec == std::errc() && result.ptr == text.data() + text.size()) {
    return value;
  }
  std::optional<double> real = parse_real(text);
  return real ? real_to_integer(*real) : std::nullopt;
}

Value to_integer(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "int", std::move(arguments), {"default", "base"});
  require_defined(runtime, input);
  int64_t base = bound.integer(1, 10);
  if (base < 2 || base > 36) {
    runtime.fail("int() needs a base from 2 to 36");
  }
  std::optional<int64_t> result;
  if (input.is_string()) {
    result = parse_integer(input.string(), static_cast<int>(base));
  } else if (input.is_integral()) {
    result = input.integer();
  } else if (input.is_real()) {
    result = real_to_integer(input.real());
  }
  if (result) {
    return Value(*result);
  }
  return bound.has(0) ? bound[0] : Value(int64_t{0});
}

Value to_real(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "float", std::move(arguments), {"default"});
  require_defined(runtime, input);
  std::optional<double> result;
  if (input.is_string()) {
    result = parse_real(input.string());
  } else if (input.is_number()) {
    result = input.real();
  }
  if (result) {
    return Value(*result);
  }
  return bound.has(0) ? bound[0] : Value(0.0);
}

Value absolute(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "abs", std::move(arguments), {});
  require_defined(runtime, input);
  if (!input.is_number()) {
    runtime.fail(fmt::format("abs() needs a number, not {}", input.type_name()));
  }
  bool below = input.is_real() ? std::signbit(input.real()) : input.integer() < 0;
  return below ? negative(runtime, input) : input.is_boolean() ? Value(input.integer()) : input;
}

Value round_filter(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "round", std::move(arguments), {"precision", "method"});
  require_defined(runtime, input);
  int64_t precision = bound.integer(0, 0);
  std::string_view method = bound.has(1) ? std::string_view(bound.string(1)) : "common";
  if (!input.is_number() || precision < 0 || precision > 15) {
    runtime.fail("round() needs a number, and a precision from 0 to 15");
  }
  double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil" || method == "floor") {
    double scaled = input.real() * scale;
    return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  if (method != "common") {
    runtime.fail("round() knows the methods common, ceil and floor");
  }
  if (input.is_integral()) {
    return Value(input.integer());
  }
  // Through decimal digits, as Python: they round the exact value, halves to even.
  std::string digits = fmt::format("{:.{}f}", input.real(), precision);
  return Value(std::strtod(digits.c_str(), nullptr));
}

Value length_filter(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "length", std::move(arguments), {});
  return Value(length(runtime, input));
}

Value attribute_filter(Runtime& runtime, const Value& input, Arguments arguments) {
  Bound bound(runtime, "attr", std::move(arguments), {"name"}, 1);
  if (input.is_dict() && !has_method(input, bound.string(0))) {
    return runtime.undefined(fmt::format("dict has no attribute {}", in_quotes(bound.string(0), 60)));
  }
  return get_attribute(runtime, input, bound.string(0));
}

}  // namespace

FilterFunction find_text_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFunction> kFilters = {
      {"abs", absolute},
      {"attr", attribute_filter},
      {"capitalize", map_text<append_capitalized>},
      {"count", length_filter},
      {"d", fallback},
      {"default", fallback},
      {"e", escape},
      {"escape", escape},
      {"float", to_real},
      {"indent", indent},
      {"int", to_integer},
      {"length", length_filter},
      {"lower", map_text<append_lower>},
      {"replace", replace_filter},
      {"round", round_filter},
      {"safe", safe},
      {"string", to_string},
      {"title", map_text<append_title_by_words>},
      {"tojson", tojson},
      {"trim", trim},
      {"upper", map_text<append_upper>},
  };
  auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

bool has_filter(std::string_view name) {
  return find_text_filter(name) != nullptr || find_sequence_filter(name) != nullptr;
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input, Arguments arguments) {
  runtime.count_steps(1);
  runtime.count_reading(input.is_string() ? input.string().size() : 0);
  FilterFunction filter = find_text_filter(name);
  if (filter == nullptr) {
    filter = find_sequence_filter(name);
  }
  if (filter == nullptr) {
    runtime.fail_unsupported(fmt::format("the filter '{}'", name));
  }
  return filter(runtime, input, std::move(arguments));
}

}  // namespace snug::jinja
