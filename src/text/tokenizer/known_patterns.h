// The regular expressions that most byte-level tokenizers split by, written out by hand: several times as
// fast as the general engine. known_patterns_test.cc holds them to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/unicode/character_class.h"

namespace snug {

class KnownPattern {
 public:
  // GPT-2's rule, which ByteLevel uses where a file does not bring its own. English contractions; then
  // letters, digits or other signs, each with one space before; then runs of white space, leaving the last
  // one to the word that follows.
  static const char* gpt2_text();
  // Nothing if the expression is none of those known here: GPT-2, Llama 3, Qwen2.
  static std::optional<KnownPattern> find(const std::string& expression);

  // Where the match that starts at `begin` ends. These expressions match everywhere: between matches lies
  // nothing. `text` is UTF-8, and `begin` is less than its size.
  size_t match_end(std::string_view text, size_t begin) const;

 private:
  enum class Kind : uint8_t { gpt2, llama3 };
  KnownPattern(Kind kind, int max_digits)
      : kind_(kind), max_digits_(max_digits), classes_(&CharacterClasses::instance()) {}

  size_t match_gpt2(std::string_view text, size_t begin) const;
  size_t match_llama3(std::string_view text, size_t begin) const;
  size_t skip(std::string_view text, size_t position, uint8_t wanted) const;
  size_t skip_signs(std::string_view text, size_t position) const;
  size_t match_spaces(std::string_view text, size_t begin, bool stop_at_newline) const;
  uint8_t kind_at(std::string_view text, size_t position, size_t& length_bytes) const;

  Kind kind_;
  int max_digits_;  // how many digits make a word
  const CharacterClasses* classes_;
};

}  // namespace snug
