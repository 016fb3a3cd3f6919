// Text with places to fill in: str.format() and the operator %, for the conversions that templates use.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "io/printable.h"
#include "text/jinja/builders.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

// [[fill]align][0][width][.precision][type]
struct Spec {
  char fill = ' ';
  char align = '\0';
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

constexpr int64_t kMaxWidth = 10'000;

int64_t take_digits(std::string_view& text, int64_t fallback) {
  int64_t value = fallback;
  auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc()) {
    text.remove_prefix(static_cast<size_t>(result.ptr - text.data()));
  }
  return std::clamp<int64_t>(value, -1, kMaxWidth);
}

bool parse_spec(std::string_view text, Spec& spec) {
  constexpr std::string_view kAligns = "<>^";
  if (text.size() > 1 && kAligns.find(text[1]) != std::string_view::npos) {
    spec.fill = text[0];
    spec.align = text[1];
    text.remove_prefix(2);
  } else if (!text.empty() && kAligns.find(text[0]) != std::string_view::npos) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  if (text.starts_with('0')) {
    spec.fill = '0';
    text.remove_prefix(1);
  }
  spec.width = take_digits(text, 0);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    spec.precision = take_digits(text, 6);
  }
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  return text.empty() && spec.width >= 0;
}

std::string format_number(Runtime& runtime, const Value& value, const Spec& spec) {
  if (spec.type == 'f') {
    return fmt::format("{:.{}f}", value.real(), spec.precision < 0 ? 6 : spec.precision);
  }
  if (value.is_integral() && spec.precision < 0) {
    if (spec.type == 'x') {
      return fmt::format("{:x}", value.integer());
    }
    if (spec.type == 'd' || spec.type == '\0' || spec.type == 's') {
      return fmt::format("{}", value.integer());
    }
  }
  if (value.is_real() && spec.precision < 0 && spec.type == '\0') {
    return real_to_text(value.real());
  }
  runtime.fail_unsupported(fmt::format("the number format '{}'", spec.type == '\0' ? '.' : spec.type));
}

void append_formatted(TextBuilder& out, const Value& value, const Spec& spec) {
  bool as_number = value.is_number() && (!value.is_boolean() || spec.type == 'd');
  if (!as_number && spec.type != '\0' && spec.type != 's') {
    out.runtime().fail(fmt::format("the format '{}' does not go with {}", spec.type, value.type_name()));
  }
  Value whole = as_number ? Value(format_number(out.runtime(), value, spec)) : to_text(out.runtime(), value);
  std::string_view text = whole.string();
  out.runtime().count_reading(text.size());
  if (!as_number && spec.precision >= 0) {
    text = text.substr(0, byte_of_character(text, spec.precision));
  }
  auto missing = static_cast<size_t>(std::max<int64_t>(spec.width - count_characters(text), 0));
  char align = spec.align != '\0' ? spec.align : as_number ? '>' : '<';
  size_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  if (spec.fill == '0' && spec.align == '\0' && text.starts_with('-')) {  // the sign comes first
    out.append('-');
    text.remove_prefix(1);
  }
  std::string_view fill(&spec.fill, 1);
  out.append_repeated(fill, before);
  out.append(text);
  out.append_repeated(fill, missing - before);
}

// What a field names: nothing (the next argument), a number, or a name; then .attributes and [items].
class FieldFinder {
 public:
  FieldFinder(Runtime& runtime, Arguments arguments) : runtime_(runtime), arguments_(std::move(arguments)) {}

  Value find(std::string_view field) {
    size_t name_end = std::min(field.find_first_of(".["), field.size());
    Value value = base(field.substr(0, name_end));
    field.remove_prefix(name_end);
    while (!field.empty()) {
      if (field[0] == '[') {
        runtime_.fail_unsupported("format() with an item in brackets");
      }
      size_t end = std::min(field.find_first_of(".[", 1), field.size());
      value = get_attribute(runtime_, value, field.substr(1, end - 1));
      field.remove_prefix(end);
    }
    return value;
  }

 private:
  Value base(std::string_view name) {
    size_t index = 0;
    auto result = std::from_chars(name.data(), name.data() + name.size(), index);
    bool is_number = !name.empty() && result.ec == std::errc() && result.ptr == name.data() + name.size();
    if (name.empty()) {
      index = next_++;
    } else if (!is_number) {
      runtime_.count_names(arguments_.named.size());
      for (const auto& [given, value] : arguments_.named) {
        if (given == name) {
          return value;
        }
      }
      runtime_.fail(fmt::format("format() has no argument {}", in_quotes(name, 40)));
    }
    if (index >= arguments_.positional.size()) {
      runtime_.fail(fmt::format("format() has no argument number {}", index));
    }
    return arguments_.positional[index];
  }

  Runtime& runtime_;
  Arguments arguments_;
  size_t next_ = 0;
};

void append_field(TextBuilder& out, std::string_view field, FieldFinder& finder) {
  out.runtime().count_steps(1);
  std::string_view spec_text;
  if (size_t colon = field.find(':'); colon != std::string_view::npos) {
    spec_text = field.substr(colon + 1);
    field = field.substr(0, colon);
  }
  bool as_repr = field.ends_with("!r");
  if (as_repr || field.ends_with("!s")) {
    field.remove_suffix(2);
  }
  Spec spec;
  if (!parse_spec(spec_text, spec)) {
    out.runtime().fail_unsupported(fmt::format("the format {}", in_quotes(spec_text, 40)));
  }
  Value value = finder.find(field);
  append_formatted(out, as_repr ? to_repr(out.runtime(), value) : value, spec);
}

}  // namespace

Value format_braces(Runtime& runtime, std::string_view format, Arguments arguments) {
  FieldFinder finder(runtime, std::move(arguments));
  TextBuilder out(runtime);
  for (size_t i = 0; i < format.size(); ++i) {
    if ((format[i] == '{' || format[i] == '}') && i + 1 < format.size() && format[i + 1] == format[i]) {
      out.append(format[i++]);
    } else if (format[i] == '{') {
      size_t close = format.find('}', i);
      if (close == std::string_view::npos) {
        runtime.fail("format() has a '{' without '}'");
      }
      append_field(out, format.substr(i + 1, close - i - 1), finder);
      i = close;
    } else if (format[i] == '}') {
      runtime.fail("format() has a '}' without '{'");
    } else {
      out.append(format[i]);
    }
  }
  return out.value();
}

Value format_percent(Runtime& runtime, std::string_view format, const Value& arguments) {
  bool is_tuple = arguments.is_sequence(SequenceKind::tuple);
  std::vector<Value> values = is_tuple ? iterate(runtime, arguments) : std::vector<Value>{arguments};
  runtime.count_reading(format.size());
  size_t next = 0;
  TextBuilder out(runtime);
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out.append(format[i]);
      continue;
    }
    size_t end = std::min(format.find_first_not_of("-0123456789.", i + 1), format.size());
    char type = end < format.size() ? format[end] : '\0';
    if (type == '%' && end == i + 1) {
      out.append('%');
      i = end;
      continue;
    }
    std::string_view options = format.substr(i + 1, end - i - 1);
    bool to_left = options.starts_with('-');
    Spec spec;
    bool readable = parse_spec(options.substr(to_left ? 1 : 0), spec);
    if (!readable || std::string_view("sdirf").find(type) == std::string_view::npos || type == '\0') {
      runtime.fail_unsupported(
          fmt::format("the conversion {}", in_quotes(format.substr(i, end - i + 1), 40)));
    }
    if (next >= values.size()) {
      runtime.fail("'%' has more places than values");
    }
    const Value& value = values[next++];
    bool as_text = type == 's' || type == 'r';
    spec.type = as_text ? 's' : type == 'i' ? 'd' : type;
    spec.align = to_left ? '<' : as_text ? '>' : '\0';
    Value shown = type == 'r' ? to_repr(runtime, value) : as_text ? to_text(runtime, value) : value;
    runtime.count_steps(1);
    append_formatted(out, shown, spec);
    i = end;
  }
  if (next < values.size() && !arguments.is_dict()) {
    runtime.fail("'%' has more values than places");
  }
  return out.value();
}

}  // namespace snug::jinja
