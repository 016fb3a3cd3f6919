// Reads each type of value from a YAML node, and says in words what is allowed.
#include "recipe/key_types.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/bytes.h"
#include "base/names.h"
#include "recipe/scalars.h"

namespace snug {
namespace {

// Aliases let a short text stand for a huge list of huge strings; real names and layer counts are far below.
constexpr size_t kMaxListElements = 4096;
constexpr size_t kMaxTextBytes = 4096;

BadValue bad(const YamlNode& node, std::string did_you_mean = "") {
  return {.where = node, .element = std::nullopt, .did_you_mean = std::move(did_you_mean)};
}

bool is_scalar(const YamlNode& node) {
  return node.value->kind == YamlValue::Kind::scalar;
}

// Only a plain scalar is a number: whoever writes quotes asks for text.
bool is_plain_scalar(const YamlNode& node) {
  return is_scalar(node) && node.value->plain;
}

bool has_control_character(std::string_view text, std::string_view allowed = "") {
  return std::any_of(text.begin(), text.end(), [&](char c) {
    bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    return is_control && allowed.find(c) == std::string_view::npos;
  });
}

bool contains(const NumberRange& range, double number) {
  bool above = range.low_included ? number >= range.low : number > range.low;
  bool below = range.high_included ? number <= range.high : number < range.high;
  return above && below;
}

std::string bool_meant_by(std::string_view text) {
  constexpr std::array kTrue = {"True", "TRUE", "yes", "Yes", "on", "On", "y", "1"};
  constexpr std::array kFalse = {"False", "FALSE", "no", "No", "off", "Off", "n", "0"};
  if (std::find(kTrue.begin(), kTrue.end(), text) != kTrue.end()) {
    return "true";
  }
  if (std::find(kFalse.begin(), kFalse.end(), text) != kFalse.end()) {
    return "false";
  }
  return text.size() <= kMaxTextBytes ? nearest_name(text, {"true", "false"}) : "";
}

}  // namespace

std::string allowed_text(const IntegerRange& range) {
  return fmt::format("a whole number from {} to {}", range.low, range.high);
}

std::string allowed_text(const NumberRange& range) {
  if (std::isinf(range.high)) {
    return range.low_included ? fmt::format("a number of at least {}", range.low)
                              : fmt::format("a number greater than {}", range.low);
  }
  if (!range.low_included) {
    return fmt::format("a number greater than {}, at most {}", range.low, range.high);
  }
  return fmt::format("a number from {} to {}{}", range.low, range.high_included ? "" : "below ", range.high);
}

std::string allowed_text(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string_view separator = i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    text += fmt::format("{}{}", separator, names[i]);
  }
  return text;
}

std::string allowed_text(std::span<const NamedNumber> names) {
  std::string text = "a map of numbers:";
  for (const NamedNumber& number : names) {
    text += fmt::format("{} {}", number.name == names.front().name ? "" : ",", number.name);
  }
  return text;
}

bool is_null(const YamlNode& node) {
  return node.value->kind == YamlValue::Kind::null;
}

bool is_auto(const YamlNode& node) {
  return is_null(node) || (is_scalar(node) && node.value->text == "auto");
}

bool is_list(const YamlNode& node) {
  return node.value->kind == YamlValue::Kind::list;
}

std::optional<BadValue> read_integer(const YamlNode& node, const IntegerRange& range, int64_t& out) {
  std::optional<int64_t> integer = is_plain_scalar(node) ? parse_integer(node.value->text) : std::nullopt;
  if (!integer || *integer < range.low || *integer > range.high) {
    return bad(node);
  }
  out = *integer;
  return std::nullopt;
}

std::optional<BadValue> read_number(const YamlNode& node, const NumberRange& range, double& out) {
  std::optional<double> number = is_plain_scalar(node) ? parse_number(node.value->text) : std::nullopt;
  if (!number || !contains(range, *number)) {
    return bad(node);
  }
  out = *number;
  return std::nullopt;
}

std::optional<BadValue> read_numbers(const YamlNode& node, std::span<const NamedNumber> names,
                                     NumberMap& out) {
  if (!is_null(node) && node.value->kind != YamlValue::Kind::map) {
    return bad(node);
  }
  NumberMap numbers;
  const std::vector<YamlNode>& items = node.value->items;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const std::string& name = items[i].value->text;
    auto found = std::find_if(names.begin(), names.end(),
                              [&](const NamedNumber& known) { return known.name == name; });
    if (found == names.end() || numbers.contains(name)) {
      return bad(items[i]);
    }
    double number = 0;
    if (std::optional<BadValue> wrong = read_number(items[i + 1], found->range, number)) {
      return wrong;
    }
    numbers.emplace(name, number);
  }
  out = std::move(numbers);
  return std::nullopt;
}

std::optional<BadValue> read_bool(const YamlNode& node, bool& out) {
  if (!is_scalar(node)) {
    return bad(node);
  }
  std::optional<bool> value = node.value->plain ? parse_bool(node.value->text) : std::nullopt;
  if (!value) {
    return bad(node, bool_meant_by(node.value->text));
  }
  out = *value;
  return std::nullopt;
}

std::optional<BadValue> read_text(const YamlNode& node, std::string& out) {
  if (!is_scalar(node) || node.value->text.empty() || node.value->text.size() > kMaxTextBytes ||
      has_control_character(node.value->text)) {
    return bad(node);
  }
  out = node.value->text;
  return std::nullopt;
}

std::optional<BadValue> read_text_or_list(const YamlNode& node, std::vector<std::string>& out) {
  std::vector<std::string> texts;
  if (!is_list(node)) {
    std::optional<BadValue> wrong = read_text(node, texts.emplace_back());
    if (!wrong) {
      out = std::move(texts);
    }
    return wrong;
  }
  const std::vector<YamlNode>& items = node.value->items;
  if (items.empty() || items.size() > kMaxListElements) {
    return bad(node);
  }
  for (size_t i = 0; i < items.size(); ++i) {
    std::optional<BadValue> wrong = read_text(items[i], texts.emplace_back());
    if (wrong) {
      wrong->element = i;
      return wrong;
    }
  }
  out = std::move(texts);
  return std::nullopt;
}

namespace {

// It becomes a part of the metrics' names.
bool is_set_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

std::optional<BadValue> read_eval_files(const YamlNode& node, std::vector<std::string>& files,
                                        std::vector<std::string>& sets) {
  std::vector<std::string> all_files;
  std::vector<std::string> all_sets;
  if (node.value->kind == YamlValue::Kind::map) {
    const std::vector<YamlNode>& items = node.value->items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      std::string name = items[i].value->text;
      bool is_new = std::find(all_sets.begin(), all_sets.end(), name) == all_sets.end();
      std::vector<std::string> of_set;
      if (!is_set_name(name) || !is_new) {
        return bad(items[i]);
      }
      if (std::optional<BadValue> wrong = read_text_or_list(items[i + 1], of_set)) {
        return wrong;
      }
      all_files.insert(all_files.end(), of_set.begin(), of_set.end());
      all_sets.insert(all_sets.end(), of_set.size(), name);
    }
    if (all_files.empty()) {
      return bad(node);
    }
  } else if (!is_null(node)) {
    if (std::optional<BadValue> wrong = read_text_or_list(node, all_files)) {
      return wrong;
    }
  }
  files = std::move(all_files);
  sets = std::move(all_sets);
  return std::nullopt;
}

Json eval_files_json(const std::vector<std::string>& files, const std::vector<std::string>& sets) {
  if (files.empty()) {
    return {};
  }
  if (sets.empty()) {
    return files.size() == 1 ? Json(files.front()) : Json(files);
  }
  Json map = Json::object();
  for (size_t i = 0; i < files.size(); ++i) {
    map[sets[i]].push_back(files[i]);
  }
  return map;
}

std::optional<BadValue> read_lines(const YamlNode& node, std::string& out) {
  constexpr size_t kMaxFormBytes = 65536;
  if (!is_scalar(node) || node.value->text.empty() || node.value->text.size() > kMaxFormBytes ||
      has_control_character(node.value->text, "\n\t")) {
    return bad(node);
  }
  out = node.value->text;
  return std::nullopt;
}

namespace {

// {path: ..., weight: ...}
std::optional<BadValue> read_weighted_file(const YamlNode& node, DataFile& file) {
  const std::vector<YamlNode>& items = node.value->items;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const std::string& name = items[i].value->text;
    std::optional<BadValue> wrong = name == "path"     ? read_text(items[i + 1], file.path)
                                    : name == "weight" ? read_number(items[i + 1], kUpToAMillion, file.weight)
                                                       : bad(items[i]);
    if (wrong) {
      return wrong;
    }
  }
  return file.path.empty() ? std::optional(bad(node)) : std::nullopt;
}

}  // namespace

namespace {

template <typename Value, typename Read>
std::optional<BadValue> read_map(const YamlNode& node, std::vector<std::pair<std::string, Value>>& out,
                                 Read read_value) {
  const std::vector<YamlNode>& items = node.value->items;
  if (node.value->kind != YamlValue::Kind::map || items.size() > 2 * kMaxListElements) {
    return bad(node);
  }
  std::vector<std::pair<std::string, Value>> read;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    std::pair<std::string, Value>& last = read.emplace_back();
    std::optional<BadValue> wrong = read_text(items[i], last.first);
    wrong = wrong ? wrong : read_value(items[i + 1], last.second);
    bool is_new = std::none_of(read.begin(), read.end() - 1,
                               [&](const auto& other) { return other.first == last.first; });
    if (wrong || !is_new) {
      return wrong ? wrong : bad(items[i]);
    }
  }
  out = std::move(read);
  return std::nullopt;
}

}  // namespace

std::optional<BadValue> read_patterns(const YamlNode& node, const IntegerRange& range,
                                      std::vector<std::pair<std::string, int64_t>>& out) {
  return read_map(node, out,
                  [&](const YamlNode& value, int64_t& number) { return read_integer(value, range, number); });
}

std::optional<BadValue> read_patterns(const YamlNode& node, const NumberRange& range,
                                      std::vector<std::pair<std::string, double>>& out) {
  return read_map(node, out,
                  [&](const YamlNode& value, double& number) { return read_number(value, range, number); });
}

std::optional<BadValue> read_files(const YamlNode& node, std::vector<DataFile>& out) {
  auto read_one = [](const YamlNode& element, DataFile& file) {
    return element.value->kind == YamlValue::Kind::map ? read_weighted_file(element, file)
                                                       : read_text(element, file.path);
  };
  std::vector<DataFile> files;
  if (!is_list(node)) {
    if (std::optional<BadValue> wrong = read_one(node, files.emplace_back())) {
      return wrong;
    }
  } else if (node.value->items.empty() || node.value->items.size() > kMaxListElements) {
    return bad(node);
  }
  for (size_t i = 0; is_list(node) && i < node.value->items.size(); ++i) {
    if (std::optional<BadValue> wrong = read_one(node.value->items[i], files.emplace_back())) {
      wrong->element = i;
      return wrong;
    }
  }
  out = std::move(files);
  return std::nullopt;
}

Json files_json(const std::vector<DataFile>& files) {
  Json list = Json::array();
  for (const DataFile& file : files) {
    list.push_back(file.weight == 1 ? Json(file.path) : Json{{"path", file.path}, {"weight", file.weight}});
  }
  if (list.empty()) {
    return "";
  }
  return list.size() == 1 && list[0].is_string() ? list[0] : list;
}

std::optional<BadValue> read_size(const YamlNode& node, std::optional<int64_t>& out_bytes) {
  if (is_null(node)) {
    out_bytes.reset();
    return std::nullopt;
  }
  std::optional<int64_t> bytes = is_scalar(node) ? parse_bytes(node.value->text) : std::nullopt;
  if (!bytes || *bytes <= 0) {
    return bad(node);
  }
  out_bytes = bytes;
  return std::nullopt;
}

std::optional<BadValue> read_dtype(const YamlNode& node, std::optional<DType>& out) {
  if (is_auto(node)) {
    out.reset();
    return std::nullopt;
  }
  if (!is_scalar(node)) {
    return bad(node);
  }
  const std::string& text = node.value->text;
  std::optional<DType> dtype = parse_dtype(text);
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
    bool is_short = text.size() <= kMaxTextBytes;
    return bad(node, is_short ? nearest_name(text, {"auto", "fp32", "bf16", "fp16"}) : "");
  }
  out = dtype;
  return std::nullopt;
}

std::optional<BadValue> read_choice(const YamlNode& node, const std::vector<std::string>& names,
                                    size_t& out) {
  if (!is_scalar(node)) {
    return bad(node);
  }
  const std::string& text = node.value->text;
  auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    return bad(node, text.size() <= kMaxTextBytes ? nearest_name(text, names) : "");
  }
  out = static_cast<size_t>(found - names.begin());
  return std::nullopt;
}

std::string exact_size(int64_t bytes) {
  struct Unit {
    std::string_view name;
    int64_t bytes;
  };
  constexpr std::array<Unit, 4> kUnits = {
      {{"GiB", int64_t{1} << 30}, {"GB", 1'000'000'000}, {"MiB", int64_t{1} << 20}, {"MB", 1'000'000}}};
  for (const Unit& unit : kUnits) {
    if (bytes % unit.bytes == 0) {
      return fmt::format("{}{}", bytes / unit.bytes, unit.name);
    }
  }
  return fmt::format("{}B", bytes);
}

}  // namespace snug
