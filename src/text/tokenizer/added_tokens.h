// Tokens that are found in the text itself, before anything else looks at it: "<|im_start|>" and its like.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace snug {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;      // left out of text that is shown to people
  bool normalized = false;   // looked for after normalization instead of before
  bool single_word = false;  // only where no word character touches it
  bool strip_left = false;   // takes the white space before it along
  bool strip_right = false;
};

// Reads tokenizer.json's "added_tokens"; `description` may be null.
std::vector<AddedToken> added_tokens_from_json(const Json& description, const std::string& path);

// Cuts text at added tokens: at each place the longest one wins, from left to right.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // Visits pieces in order; `token` is null for text between tokens, which is never empty.
  using Visitor = std::function<void(std::string_view piece, const AddedToken* token)>;
  void split(std::string_view text, const Visitor& visit) const;

 private:
  const AddedToken* longest_at(std::string_view text, size_t position) const;

  std::vector<AddedToken> tokens_;                        // longest first
  std::array<std::vector<uint32_t>, 256> by_first_byte_;  // indices into tokens_, longest first
};

}  // namespace snug
