// SentencePiece's precompiled normalizer: a table of strings to replace, searched through a double-array
// trie. Its bytes come from an untrusted file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

class Charsmap {
 public:
  // `table`: four bytes with the trie's size, the trie, and the replacements, each ended by a zero byte.
  // `where` names the file and key in errors.
  Charsmap(std::string_view table, const std::string& where);

  // Writes the normalized text to `result` and returns true, or returns false where nothing changes. Works on
  // grapheme clusters as the reference implementation does: a short one is looked up whole, and otherwise
  // each of its characters.
  bool apply(std::string_view text, std::string& result) const;

 private:
  void check_replacements(const std::string& where) const;
  std::optional<std::string_view> replacement_of(std::string_view chunk) const;
  void append_cluster(std::string_view cluster, std::string& result) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;
  std::array<bool, 128> ascii_changes_{};
};

// Standard base64, as tokenizer.json writes the table; throws bad_input for anything else.
std::string decode_base64(std::string_view text, const std::string& where);
std::string encode_base64(std::string_view bytes);

}  // namespace snug
