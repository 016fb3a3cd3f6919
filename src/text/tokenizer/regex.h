// Regular expressions over UTF-8 text, as tokenizer files write them: PCRE2, compiled once, with JIT.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace snug {

class Regex {
 public:
  // `where` names the file and key in errors; throws bad_input if the pattern does not compile.
  Regex(const std::string& pattern, const std::string& where);
  // Finds `text` itself, whatever characters it holds.
  static Regex literal(const std::string& text, const std::string& where);

  // Cuts `text`, which must be UTF-8, into matches and what lies between them, in order, without losing a
  // byte and without empty pieces.
  using Visitor = std::function<void(std::string_view piece, bool is_match)>;
  void split(std::string_view text, const Visitor& visit) const;

 private:
  Regex(const std::string& pattern, uint32_t options, const std::string& where);

  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
  std::string where_;
};

}  // namespace snug
