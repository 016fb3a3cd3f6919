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

void append_json_string(std::string& out, std::string_view text, bool ensure_ascii) {
  out += '"';
  while (!text.empty()) {
    Utf8Unit unit = first_utf8_unit(text);
    uint32_t code = unit.status == Utf8Status::valid ? unit.codepoint : 0xFFFD;
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
    constexpr std::string_view kLetters = "\"\\nrtfb";
    size_t found = code < 0x80 ? kEscaped.find(static_cast<char>(code)) : std::string_view::npos;
    if (found != std::string_view::npos) {
      out += '\\';
      out += kLetters[found];
    } else if (code < 0x20 || (ensure_ascii && code >= 0x7F && code < 0x10000)) {
      out += fmt::format("\\u{:04x}", code);
    } else if (ensure_ascii && code >= 0x10000) {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                         0xDC00 + ((code - 0x10000) & 0x3FFU));
    } else {
      append_utf8(out, code);
    }
    text.remove_prefix(unit.length_bytes);
  }
  out += '"';
}

class JsonPrinter {
 public:
  JsonPrinter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void append(std::string& out, const Value& value) {
    DepthGuard guard(runtime_);
    runtime_.count_steps(1);
    if (value.is_none()) {
      out += "null";
    } else if (value.is_boolean()) {
      out += value.boolean() ? "true" : "false";
    } else if (value.is_integer()) {
      out += fmt::format("{}", value.integer());
    } else if (value.is_real()) {
      out += json_real(value.real());
    } else if (value.is_string()) {
      append_json_string(out, value.string(), style_.ensure_ascii);
    } else if (value.is_sequence(SequenceKind::list) || value.is_sequence(SequenceKind::tuple)) {
      append_items(out, value.sequence().items);
    } else if (value.is_dict()) {
      append_members(out, value.dict());
    } else {
      require_defined(runtime_, value);
      runtime_.fail(fmt::format("{} cannot be written as JSON", value.type_name()));
    }
  }

 private:
  static std::string json_real(double value) {
    if (std::isfinite(value)) {
      return finite_to_text(value);
    }
    return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  }

  void new_line(std::string& out) const {
    if (style_.indented) {
      out += '\n';
      for (int i = 0; i < level_; ++i) {
        out += style_.indent;
      }
    }
  }

  void append_items(std::string& out, const std::vector<Value>& items) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      out += i > 0 ? style_.item_separator : "";
      new_line(out);
      append(out, items[i]);
    }
    --level_;
    new_line(out);
    out += ']';
  }

  std::string key_text(const Value& key) {
    if (key.is_string()) {
      return key.string();
    }
    std::string text;
    if (!key.is_none() && !key.is_number()) {
      runtime_.fail(fmt::format("{} cannot be a key in JSON", key.type_name()));
    }
    append(text, key);
    return text;
  }

  void append_members(std::string& out, const Dict& dict) {
    if (dict.items().empty()) {
      out += "{}";
      return;
    }
    std::vector<std::pair<std::string, const Value*>> members;
    for (const auto& [key, value] : dict.items()) {
      members.emplace_back(key_text(key), &value);
    }
    if (style_.sort_keys) {
      std::stable_sort(members.begin(), members.end(),
                       [](const auto& left, const auto& right) { return left.first < right.first; });
    }
    out += '{';
    ++level_;
    for (size_t i = 0; i < members.size(); ++i) {
      out += i > 0 ? style_.item_separator : "";
      new_line(out);
      append_json_string(out, members[i].first, style_.ensure_ascii);
      out += style_.key_separator;
      append(out, *members[i].second);
    }
    --level_;
    new_line(out);
    out += '}';
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  int level_ = 0;
};

std::string sequence_repr(Runtime& runtime, const Sequence& sequence) {
  std::string out(1, sequence.kind == SequenceKind::list ? '[' : '(');
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    out += i > 0 ? ", " : "";
    out += to_repr(runtime, sequence.items[i]);
  }
  if (sequence.kind == SequenceKind::list) {
    return out + ']';
  }
  return out + (sequence.items.size() == 1 ? ",)" : ")");
}

}  // namespace

std::string real_to_text(double value) {
  if (std::isfinite(value)) {
    return finite_to_text(value);
  }
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::string to_repr(Runtime& runtime, const Value& value) {
  DepthGuard guard(runtime);
  runtime.count_steps(1);
  if (value.is_string()) {
    return value.is_safe() ? "Markup(" + in_python_quotes(value.string()) + ")"
                           : in_python_quotes(value.string());
  }
  if (value.is_undefined()) {
    return "Undefined";
  }
  if (value.is_none()) {
    return "None";
  }
  if (value.is_boolean()) {
    return value.boolean() ? "True" : "False";
  }
  if (value.is_integer()) {
    return fmt::format("{}", value.integer());
  }
  if (value.is_real()) {
    return real_to_text(value.real());
  }
  if (value.is_sequence(SequenceKind::list) || value.is_sequence(SequenceKind::tuple)) {
    return sequence_repr(runtime, value.sequence());
  }
  if (value.is_dict()) {
    std::string out = "{";
    for (const auto& [key, member] : value.dict().items()) {
      out += (out.size() > 1 ? ", " : "") + to_repr(runtime, key) + ": " + to_repr(runtime, member);
    }
    return out + "}";
  }
  runtime.fail(fmt::format("{} has no text of its own; it may be meant to be called or made a list",
                           value.type_name()));
}

std::string to_text(Runtime& runtime, const Value& value) {
  if (value.is_string()) {
    return value.string();
  }
  return value.is_undefined() ? "" : to_repr(runtime, value);
}

std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  std::string out;
  JsonPrinter(runtime, style).append(out, value);
  runtime.count_text(out.size());
  return out;
}

}  // namespace snug::jinja
