// Values as text: str(), repr() and json.dumps() of Python.
#include "text/jinja/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "text/jinja/operators.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

// Python writes the shortest digits that read back the same, and an exponent from 1e16 up and below 1e-4.
std::string finite_to_text(double value) {
  std::array<char, 64> buffer = {};
  auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  std::string text(buffer.data(), result.ptr);
  size_t mark = text.find('e');
  int exponent = std::stoi(text.substr(mark + 1));
  if (exponent >= -4 && exponent < 16) {
    result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
    text.assign(buffer.data(), result.ptr);
    return text.find('.') == std::string::npos ? text + ".0" : text;
  }
  return text;  // e-05, e+16: two digits at least, as Python
}

void append_json_string(TextBuilder& out, std::string_view text, bool ensure_ascii) {
  out.append('"');
  while (!text.empty()) {
    Utf8Unit unit = first_utf8_unit(text);
    uint32_t code = unit.status == Utf8Status::valid ? unit.codepoint : 0xFFFD;
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
    constexpr std::string_view kLetters = "\"\\nrtfb";
    size_t found = code < 0x80 ? kEscaped.find(static_cast<char>(code)) : std::string_view::npos;
    if (found != std::string_view::npos) {
      out.append('\\');
      out.append(kLetters[found]);
    } else if (code < 0x20 || (ensure_ascii && code >= 0x7F && code < 0x10000)) {
      out.append(fmt::format("\\u{:04x}", code));
    } else if (ensure_ascii && code >= 0x10000) {
      out.append(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                             0xDC00 + ((code - 0x10000) & 0x3FFU)));
    } else {
      out.append(unit.status == Utf8Status::valid ? text.substr(0, unit.length_bytes) : "\uFFFD");
    }
    text.remove_prefix(unit.length_bytes);
  }
  out.append('"');
}

class JsonPrinter {
 public:
  JsonPrinter(TextBuilder& out, const JsonStyle& style) : out_(out), runtime_(out.runtime()), style_(style) {}

  void append(const Value& value) {
    DepthGuard guard(runtime_);
    runtime_.count_steps(1);
    if (value.is_string()) {
      append_json_string(out_, value.string(), style_.ensure_ascii);
    } else if (value.is_none() || value.is_number()) {
      out_.append(scalar(value));
    } else if (is_list_or_tuple(value)) {
      append_items(value.sequence().items);
    } else if (value.is_dict()) {
      append_members(value.dict());
    } else {
      require_defined(runtime_, value);
      runtime_.fail(fmt::format("{} cannot be written as JSON", value.type_name()));
    }
  }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) {
      return "null";
    }
    if (value.is_boolean()) {
      return value.boolean() ? "true" : "false";
    }
    if (value.is_integer()) {
      return fmt::format("{}", value.integer());
    }
    if (std::isfinite(value.real())) {
      return finite_to_text(value.real());
    }
    return std::isnan(value.real()) ? "NaN" : value.real() > 0 ? "Infinity" : "-Infinity";
  }

  void new_line() {
    if (style_.indented) {
      out_.append('\n');
      out_.append_repeated(style_.indent, level_);
    }
  }

  void append_items(const std::vector<Value>& items) {
    if (items.empty()) {
      out_.append("[]");
      return;
    }
    out_.append('[');
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      out_.append(i > 0 ? style_.item_separator : "");
      new_line();
      append(items[i]);
    }
    --level_;
    new_line();
    out_.append(']');
  }

  // JSON's keys are strings.
  Value key_text(const Value& key) {
    if (key.is_string()) {
      return key;
    }
    if (!key.is_none() && !key.is_number()) {
      runtime_.fail(fmt::format("{} cannot be a key in JSON", key.type_name()));
    }
    return runtime_.text(scalar(key));
  }

  void append_members(const Dict& dict) {
    if (dict.items().empty()) {
      out_.append("{}");
      return;
    }
    runtime_.count_items(dict.items().size());
    std::vector<std::pair<Value, const Value*>> members;
    for (const auto& [key, value] : dict.items()) {
      members.emplace_back(key_text(key), &value);
    }
    if (style_.sort_keys) {
      std::stable_sort(members.begin(), members.end(), [&](const auto& left, const auto& right) {
        return less(runtime_, left.first, right.first);
      });
    }
    out_.append('{');
    ++level_;
    for (size_t i = 0; i < members.size(); ++i) {
      out_.append(i > 0 ? style_.item_separator : "");
      new_line();
      append_json_string(out_, members[i].first.string(), style_.ensure_ascii);
      out_.append(style_.key_separator);
      append(*members[i].second);
    }
    --level_;
    new_line();
    out_.append('}');
  }

  TextBuilder& out_;
  Runtime& runtime_;
  const JsonStyle& style_;
  size_t level_ = 0;
};

// With quotes and escapes.
void append_quoted(TextBuilder& out, std::string_view text) {
  bool has_single = text.find('\'') != std::string_view::npos;
  char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out.append(quote);
  while (!text.empty()) {
    Character character = first_character(text);
    std::string_view bytes = take_character(text);
    if (bytes[0] == quote || bytes[0] == '\\') {
      out.append('\\');
      out.append(bytes);
    } else if (bytes[0] == '\n') {
      out.append("\\n");
    } else if (bytes[0] == '\r') {
      out.append("\\r");
    } else if (bytes[0] == '\t') {
      out.append("\\t");
    } else if (is_printable(character)) {
      out.append(bytes);
    } else if (character.codepoint < 0x100) {
      out.append(fmt::format("\\x{:02x}", character.codepoint));
    } else if (character.codepoint < 0x10000) {
      out.append(fmt::format("\\u{:04x}", character.codepoint));
    } else {
      out.append(fmt::format("\\U{:08x}", character.codepoint));
    }
  }
  out.append(quote);
}

void append_sequence_repr(TextBuilder& out, const Sequence& sequence) {
  bool is_list = sequence.kind == SequenceKind::list;
  out.append(is_list ? '[' : '(');
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    out.append(i > 0 ? ", " : "");
    append_repr(out, sequence.items[i]);
  }
  out.append(is_list ? "]" : sequence.items.size() == 1 ? ",)" : ")");
}

void append_dict_repr(TextBuilder& out, const Dict& dict) {
  out.append('{');
  bool is_first = true;
  for (const auto& [key, member] : dict.items()) {
    out.append(std::exchange(is_first, false) ? "" : ", ");
    append_repr(out, key);
    out.append(": ");
    append_repr(out, member);
  }
  out.append('}');
}

}  // namespace

std::string real_to_text(double value) {
  if (std::isfinite(value)) {
    return finite_to_text(value);
  }
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

void append_repr(TextBuilder& out, const Value& value) {
  DepthGuard guard(out.runtime());
  out.runtime().count_steps(1);
  if (value.is_string()) {
    out.append(value.is_safe() ? "Markup(" : "");
    append_quoted(out, value.string());
    out.append(value.is_safe() ? ")" : "");
  } else if (value.is_undefined()) {
    out.append("Undefined");
  } else if (value.is_none()) {
    out.append("None");
  } else if (value.is_boolean()) {
    out.append(value.boolean() ? "True" : "False");
  } else if (value.is_integer()) {
    out.append(fmt::format("{}", value.integer()));
  } else if (value.is_real()) {
    out.append(real_to_text(value.real()));
  } else if (is_list_or_tuple(value)) {
    append_sequence_repr(out, value.sequence());
  } else if (value.is_dict()) {
    append_dict_repr(out, value.dict());
  } else {
    out.runtime().fail(fmt::format("{} has no text of its own; it may be meant to be called or made a list",
                                   value.type_name()));
  }
}

void append_text(TextBuilder& out, const Value& value) {
  if (value.is_string()) {
    out.append(value.string());
  } else if (!value.is_undefined()) {
    append_repr(out, value);
  }
}

Value to_text(Runtime& runtime, const Value& value) {
  if (value.is_string()) {
    return value;
  }
  TextBuilder out(runtime);
  append_text(out, value);
  return out.value();
}

Value to_repr(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  append_repr(out, value);
  return out.value();
}

void append_json(TextBuilder& out, const Value& value, const JsonStyle& style) {
  JsonPrinter(out, style).append(value);
}

}  // namespace snug::jinja
