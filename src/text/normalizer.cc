// What a tokenizer does to text before it looks at it: tokenizer.json's "normalizer".
#include "text/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"

namespace snug {

namespace {

std::string compose_valid(std::string_view text) {
  utf8proc_uint8_t* composed = nullptr;
  utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                         static_cast<utf8proc_ssize_t>(text.size()), &composed,
                                         static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  if (length < 0) {
    throw environment_error(
        fmt::format("cannot normalize a text of {} bytes: {}", text.size(), utf8proc_errmsg(length)));
  }
  return {reinterpret_cast<const char*>(composed), static_cast<size_t>(length)};
}

}  // namespace

std::string normalize_nfc(std::string_view text) {
  // Every character below U+0300 is composed already and combines with none of its kind; in UTF-8 the others
  // start with 0xCC or more.
  bool composed =
      std::none_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) >= 0xCC; });
  if (composed) {
    return std::string(text);
  }
  std::string result;
  while (!text.empty()) {
    size_t valid = valid_utf8_prefix_bytes(text);
    if (valid > 0) {
      result += compose_valid(text.substr(0, valid));
    }
    if (valid < text.size()) {
      result += text[valid];
      ++valid;
    }
    text.remove_prefix(valid);
  }
  return result;
}

Normalizer Normalizer::from_json(const Json& description, const std::string& path) {
  Normalizer result;
  if (description.is_null()) {
    return result;
  }
  std::string type = json_string(description, "type", "", path);
  if (type == "NFC") {
    result.nfc_ = true;
  } else if (type == "Sequence") {
    auto parts = description.find("normalizers");
    if (parts == description.end() || !parts->is_array()) {
      throw bad_input(fmt::format("{}: the normalizer of type Sequence has no list \"normalizers\".", path));
    }
    for (const Json& part : *parts) {
      result.nfc_ = from_json(part, path).nfc_ || result.nfc_;
    }
  } else {
    throw bad_input(
        fmt::format("{}: the normalizer '{}' is not supported; snug knows NFC, and none. Use a model whose "
                    "tokenizer has one of these.",
                    path, type));
  }
  return result;
}

std::string Normalizer::apply(std::string_view text) const {
  return nfc_ ? normalize_nfc(text) : std::string(text);
}

}  // namespace snug
