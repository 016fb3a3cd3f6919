// SentencePiece's precompiled normalizer.
#include "text/tokenizer/charsmap.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode/valid_utf8.h"

namespace snug {

namespace {

// Longer clusters are never looked up whole.
constexpr size_t kMaxClusterBytes = 5;

// The parts of a unit of the double array (the layout of the darts-clone library, which SentencePiece uses).
bool has_leaf(uint32_t unit) {
  return ((unit >> 8) & 1U) != 0;
}
uint32_t label_of(uint32_t unit) {
  return unit & 0x800000FFU;
}
uint32_t offset_of(uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200U) >> 6);
}
bool is_value(uint32_t unit) {
  return (unit >> 31) != 0;
}
uint32_t value_of(uint32_t unit) {
  return unit & 0x7FFFFFFFU;
}

// Where the grapheme cluster that starts at `begin` ends.
size_t cluster_end(std::string_view text, size_t begin) {
  Character previous = character_at(text, begin);
  size_t end = begin + previous.length_bytes;
  utf8proc_int32_t state = 0;
  while (end < text.size()) {
    Character next = character_at(text, end);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous.codepoint),
                                         static_cast<utf8proc_int32_t>(next.codepoint), &state) != 0) {
      break;
    }
    end += next.length_bytes;
    previous = next;
  }
  return end;
}

}  // namespace

Charsmap::Charsmap(std::string_view table, const std::string& where) {
  uint32_t trie_bytes = 0;
  if (table.size() >= sizeof(trie_bytes)) {
    std::memcpy(&trie_bytes, table.data(), sizeof(trie_bytes));
    table.remove_prefix(sizeof(trie_bytes));
  }
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes > table.size()) {
    throw bad_input(
        fmt::format("{}: the table says that its trie has {} bytes, but it has {} bytes in all. The file is "
                    "damaged: download it again.",
                    where, trie_bytes, table.size()));
  }
  trie_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(trie_.data(), table.data(), trie_bytes);
  replacements_ = table.substr(trie_bytes);
  check_replacements(where);
  for (size_t c = 0; c < ascii_changes_.size(); ++c) {
    char byte = static_cast<char>(c);
    ascii_changes_[c] = replacement_of({&byte, 1}).has_value();
  }
}

// Whatever looks at the text next relies on whole characters, so none may be replaced by a part of one.
void Charsmap::check_replacements(const std::string& where) const {
  if (size_t valid = valid_utf8_prefix_bytes(replacements_); valid != replacements_.size()) {
    throw bad_input(fmt::format(
        "{}: the replacements are not UTF-8 from byte {} on. The file is damaged: download it again.", where,
        valid));
  }
  for (size_t node = 0; node < trie_.size(); ++node) {
    size_t leaf = node ^ offset_of(trie_[node]);
    if (is_value(trie_[node]) || !has_leaf(trie_[node]) || leaf >= trie_.size()) {
      continue;
    }
    size_t begin = value_of(trie_[leaf]);
    if (begin > replacements_.size() ||
        (begin < replacements_.size() && is_utf8_continuation(replacements_[begin]))) {
      throw bad_input(
          fmt::format("{}: node {} has its replacement at byte {} of {}, where none begins. The file is "
                      "damaged: download it again.",
                      where, node, begin, replacements_.size()));
    }
  }
}

std::optional<std::string_view> Charsmap::replacement_of(std::string_view chunk) const {
  size_t node = offset_of(trie_[0]);
  for (char c : chunk) {
    uint32_t byte = static_cast<uint8_t>(c);
    node ^= byte;
    if (byte == 0 || node >= trie_.size() || label_of(trie_[node]) != byte) {
      return std::nullopt;
    }
    uint32_t unit = trie_[node];
    node ^= offset_of(unit);
    if (has_leaf(unit)) {  // the first, shortest match counts, even if more of the chunk follows
      if (node >= trie_.size()) {
        return std::nullopt;
      }
      std::string_view rest = std::string_view(replacements_).substr(value_of(trie_[node]));
      return rest.substr(0, rest.find('\0'));
    }
  }
  return std::nullopt;
}

void Charsmap::append_cluster(std::string_view cluster, std::string& result) const {
  if (cluster.size() <= kMaxClusterBytes) {
    if (std::optional<std::string_view> replacement = replacement_of(cluster); replacement) {
      result += *replacement;
      return;
    }
  }
  for (size_t position = 0; position < cluster.size();) {
    std::string_view character = cluster.substr(position, utf8_length_bytes(cluster[position]));
    result += replacement_of(character).value_or(character);
    position += character.size();
  }
}

bool Charsmap::apply(std::string_view text, std::string& result) const {
  auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  result.clear();
  result.reserve(text.size() + 16);
  size_t copied = 0;
  size_t position = 0;
  while (position < text.size()) {
    char c = text[position];
    // Two ASCII characters never make a cluster, but for a carriage return with its line feed.
    bool alone = is_ascii(c) && c != '\r' && (position + 1 == text.size() || is_ascii(text[position + 1]));
    if (alone && !ascii_changes_[static_cast<uint8_t>(c)]) {
      ++position;
      continue;
    }
    result.append(text.substr(copied, position - copied));
    size_t end = alone ? position + 1 : cluster_end(text, position);
    append_cluster(text.substr(position, end - position), result);
    position = end;
    copied = end;
  }
  if (copied == 0) {
    return false;
  }
  result.append(text.substr(copied));
  return true;
}

std::string decode_base64(std::string_view text, const std::string& where) {
  while (text.ends_with('=')) {
    text.remove_suffix(1);
  }
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else {
      throw bad_input(
          fmt::format("{}: character {} is not base64. The file is damaged: download it again.", where, i));
    }
    bits = (bits << 6) | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>((bits >> count) & 0xFFU);
    }
  }
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    auto byte = [&](size_t k) { return i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U; };
    uint32_t bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
    size_t digits = std::min<size_t>(bytes.size() - i, 3) + 1;
    for (size_t k = 0; k < digits; ++k) {
      text += kDigits[(bits >> (18 - 6 * k)) & 0x3FU];
    }
    text.append(4 - digits, '=');
  }
  return text;
}

}  // namespace snug
