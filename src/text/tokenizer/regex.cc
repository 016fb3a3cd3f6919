// Regular expressions over UTF-8 text, as tokenizer files write them: PCRE2, compiled once, with JIT.
#include "text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"
#include "io/printable.h"

namespace snug {

namespace {

// PCRE2's \s also matches U+180E, which has not been white space since Unicode 6.3. Tokenizers are made with
// engines that follow the White_Space property, so we ask for that by name.
std::string with_unicode_white_space(const std::string& pattern) {
  std::string result;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      result += pattern[i];
      continue;
    }
    char escaped = pattern[++i];
    if (escaped == 's') {
      result += "\\p{White_Space}";
    } else if (escaped == 'S') {
      result += "\\P{White_Space}";
    } else {
      result += '\\';
      result += escaped;
    }
  }
  return result;
}

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

}  // namespace

void Regex::FreeCode::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Regex::Regex(const std::string& pattern, const std::string& where)
    : Regex(with_unicode_white_space(pattern), PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, where) {
}

Regex Regex::literal(const std::string& text, const std::string& where) {
  return Regex(text, PCRE2_LITERAL, where);
}

Regex::Regex(const std::string& pattern, uint32_t options, const std::string& where) : where_(where) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options | PCRE2_UTF,
                            &error, &offset, nullptr));
  if (!code_) {
    throw bad_input(fmt::format("{}: cannot compile the regular expression '{}': {} at offset {}.", where,
                                printable(pattern, 400), error_text(error), offset));
  }
  // Without JIT (some machines forbid writable code) matching is slower and otherwise the same.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

void Regex::split(std::string_view text, const Visitor& visit) const {
  // Only the bounds of the whole match are asked for, so one object a thread serves every pattern.
  thread_local std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t done = 0;    // everything before it has been visited
  size_t search = 0;  // where the next match may start
  while (search < text.size()) {
    int found =
        pcre2_match(code_.get(), subject, text.size(), search, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code_.get(), subject, text.size(), search, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          match.get(), nullptr);
    }
    if (found == PCRE2_ERROR_NOMATCH) {
      break;
    }
    if (found < 0) {
      throw bad_input(
          fmt::format("{}: the regular expression cannot be matched against a text of {} bytes: {}.", where_,
                      text.size(), error_text(found)));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    size_t begin = range[0];
    size_t end = range[1];
    if (end <= begin) {  // an empty match separates nothing
      search = begin + std::max<size_t>(1, first_utf8_unit(text.substr(begin)).length_bytes);
      continue;
    }
    if (begin > done) {
      visit(text.substr(done, begin - done), false);
    }
    visit(text.substr(begin, end - begin), true);
    done = end;
    search = end;
  }
  if (done < text.size()) {
    visit(text.substr(done), false);
  }
}

}  // namespace snug
