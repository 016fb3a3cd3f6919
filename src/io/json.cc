// JSON by nlohmann's event parser, stricter than its document parser: duplicate keys, deep nesting, NUL
// bytes and numbers that overflow are errors, each with its place.
#include "io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/printable.h"

namespace snug {
namespace {

constexpr size_t kMaxDepth = 100;

// Reads the text and leaves, in `position`, how far the parser has come: events carry no place.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* position) : at_(at), position_(position) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*position_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  size_t* position_;
};

// "path:line:column" of a byte; columns count characters, as editors do.
std::string place(std::string_view text, size_t offset, const std::string& path) {
  offset = std::min(offset, text.size());
  size_t line = 1;
  size_t column = 1;
  for (char character : text.substr(0, offset)) {
    if (character == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(character) & 0xC0U) != 0x80U) {
      ++column;
    }
  }
  return fmt::format("{}:{}:{}", path, line, column);
}

// Where the string that ends just before `end` (with its closing quote) opens.
size_t string_start(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0) {
    --at;
    if (text[at] != '"') {
      continue;
    }
    size_t backslashes = 0;
    while (backslashes < at && text[at - 1 - backslashes] == '\\') {
      ++backslashes;
    }
    if (backslashes % 2 == 0) {
      break;
    }
  }
  return at;
}

// What nlohmann says, without its error number and its own account of the place.
std::string reason_of(std::string_view message) {
  size_t start = message.find("] ");
  message.remove_prefix(start == std::string_view::npos ? 0 : start + 2);
  if (message.starts_with("parse error")) {
    size_t colon = message.find(": ");
    message.remove_prefix(colon == std::string_view::npos ? 0 : colon + 2);
  }
  return printable(message, 300);
}

class DocumentBuilder : public nlohmann::json_sax<Json> {
 public:
  DocumentBuilder(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Json take() { return std::move(root_); }
  size_t* position() { return &position_; }

  bool null() override { return add(Json(nullptr)) != nullptr; }
  bool boolean(bool value) override { return add(Json(value)) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(Json(value)) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)) != nullptr; }
  bool number_float(number_float_t value, const string_t& digits) override {
    (void)digits;
    return add(Json(value)) != nullptr;
  }
  bool string(string_t& value) override { return add(Json(std::move(value))) != nullptr; }
  bool binary(binary_t& value) override { return add(Json(std::move(value))) != nullptr; }

  bool start_object(size_t /*elements*/) override { return open(Json::object()); }
  bool start_array(size_t /*elements*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!levels_.back().keys.insert(name).second) {
      throw bad_input(fmt::format("{}: duplicate key {}; each key may appear once in an object",
                                  place(text_, string_start(text_, position_), path_), in_quotes(name)));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    throw bad_input(fmt::format("{}: not valid JSON: {}",
                                place(text_, position == 0 ? 0 : position - 1, path_),
                                reason_of(error.what())));
  }

 private:
  struct Level {
    Json* container;
    std::unordered_set<std::string> keys;
  };

  bool open(Json container) {
    if (levels_.size() == kMaxDepth) {
      throw bad_input(
          fmt::format("{}: nested more than {} levels deep", place(text_, position_ - 1, path_), kMaxDepth));
    }
    levels_.push_back({add(std::move(container)), {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  // The pointer stays good while the new element is the open one: its container does not grow meanwhile.
  Json* add(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& container = *levels_.back().container;
    if (container.is_array()) {
      auto& elements = container.get_ref<Json::array_t&>();
      elements.push_back(std::move(value));
      return &elements.back();
    }
    // Not operator[]: it looks through all earlier keys, and vocabularies have a hundred thousand. Not
    // the vector's own growth either: with constant keys it would copy every value, vocabulary and all.
    auto& members = container.get_ref<Json::object_t&>();
    if (members.size() == members.capacity()) {
      Json::object_t grown;
      grown.reserve(std::max<size_t>(4, 2 * members.size()));
      for (auto& [name, member] : members) {
        grown.emplace_back(name, std::move(member));
      }
      members.swap(grown);
    }
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  std::string_view text_;
  const std::string& path_;
  size_t position_ = 0;
  Json root_;
  std::string key_;
  std::vector<Level> levels_;
};

// The value under a key, or nothing if it is absent or null.
const Json* find_value(const Json& object, std::string_view key, const std::string& path) {
  if (!object.is_object()) {
    throw bad_input(fmt::format("{}: looking for key {}: an object is wanted, found {}", path, in_quotes(key),
                                object.type_name()));
  }
  for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) {
    if (name == key) {
      return value.is_null() ? nullptr : &value;
    }
  }
  return nullptr;
}

Error wrong_type(const Json& value, std::string_view key, std::string_view wanted, const std::string& path) {
  std::string found = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return bad_input(
      fmt::format("{}: key {} is {}; {} is wanted", path, in_quotes(key), printable(found, 60), wanted));
}

int64_t as_integer(const Json& value, std::string_view key, const std::string& path) {
  constexpr std::string_view kWanted = "an integer";
  if (value.is_number_unsigned()) {
    auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) {
      throw wrong_type(value, key, "an integer below 2^63", path);
    }
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) {
    return value.get<int64_t>();
  }
  if (value.is_number_float()) {  // 1e3 and 4096.0 are integers to JSON; past 2^53 digits are missing
    double number = value.get<double>();
    if (std::nearbyint(number) == number && std::abs(number) <= 0x1p53) {
      return static_cast<int64_t>(number);
    }
  }
  throw wrong_type(value, key, kWanted, path);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& path) {
  // The parser takes a NUL for the end of the text and would silently drop what follows.
  size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    throw bad_input(fmt::format("{}: not valid JSON: a NUL byte", place(text, nul, path)));
  }
  DocumentBuilder builder(text, path);
  CountingIterator first(text.data(), builder.position());
  CountingIterator last(text.data() + text.size(), builder.position());
  Json::sax_parse(first, last, &builder);
  return builder.take();
}

Json read_json(const std::filesystem::path& path) {
  return parse_json(read_text_file(path), path.string());
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::optional<Json> find_object(std::string_view text) {
  try {
    Json found = parse_json(text, "");
    return found.is_object() ? std::optional(std::move(found)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

int64_t json_integer(const Json& object, std::string_view key, const std::string& path) {
  const Json* value = find_value(object, key, path);
  if (value == nullptr) {
    throw bad_input(fmt::format("{}: key {} is missing; an integer is wanted", path, in_quotes(key)));
  }
  return as_integer(*value, key, path);
}

int64_t json_integer(const Json& object, std::string_view key, int64_t fallback, const std::string& path) {
  const Json* value = find_value(object, key, path);
  return value == nullptr ? fallback : as_integer(*value, key, path);
}

double json_number(const Json& object, std::string_view key, double fallback, const std::string& path) {
  const Json* value = find_value(object, key, path);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_number()) {
    throw wrong_type(*value, key, "a number", path);
  }
  return value->get<double>();
}

bool json_bool(const Json& object, std::string_view key, bool fallback, const std::string& path) {
  const Json* value = find_value(object, key, path);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_boolean()) {
    throw wrong_type(*value, key, "true or false", path);
  }
  return value->get<bool>();
}

std::string json_string(const Json& object, std::string_view key, const std::string& fallback,
                        const std::string& path) {
  const Json* value = find_value(object, key, path);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_string()) {
    throw wrong_type(*value, key, "a string", path);
  }
  return value->get<std::string>();
}

}  // namespace snug
