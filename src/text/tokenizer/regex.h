// Regular expressions over UTF-8 text, as tokenizer files write them. The engine is Oniguruma with its
// default syntax, because Hugging Face's tokenizers are made with it: see docs/decisions/0010-oniguruma.md.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct re_pattern_buffer;

namespace snug {

class Regex {
 public:
  // `where` names the file and key in errors; throws bad_input if the pattern does not compile.
  Regex(const std::string& pattern, const std::string& where);
  // Finds `text` itself, whatever characters it holds; an empty one is found between all characters.
  static Regex literal(const std::string& text, const std::string& where);

  // Cuts `text`, which must be UTF-8, into matches and what lies between them, in order, without losing a
  // byte. A match may be empty (a look-ahead is), what lies between is not. Throws bad_input where the
  // expression takes too long for the text.
  using Visitor = std::function<void(std::string_view piece, bool is_match)>;
  void split(std::string_view text, const Visitor& visit) const;

 private:
  enum class Syntax : uint8_t { expression, literal };
  Regex(const std::string& pattern, Syntax syntax, const std::string& where);

  struct FreeCode {
    void operator()(re_pattern_buffer* code) const;
  };
  std::unique_ptr<re_pattern_buffer, FreeCode> code_;
  std::string where_;
};

}  // namespace snug
