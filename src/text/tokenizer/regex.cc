// Regular expressions over UTF-8 text, as tokenizer files write them: Oniguruma, compiled once.
#include "text/tokenizer/regex.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "base/error.h"
#include "io/printable.h"
#include "text/tokenizer/regex_names.h"
#include "text/unicode/valid_utf8.h"

namespace snug {

namespace {

// Expressions come from untrusted files, and some take exponential time. How often a search goes back is
// limited, first to what nearly all need, then to ten times as much and so on; these further attempts are
// paid from what a text of so many bytes may cost. A single match may go back as often as the reference
// implementation lets it.
constexpr unsigned long kRetriesOfCheapMatch = 1000;
constexpr unsigned long kRetriesOfMatch = 10'000'000;
constexpr unsigned long kRetriesOfText = 50'000'000;
constexpr unsigned long kRetriesOfByte = 10'000;
constexpr unsigned kStackEntries = 10'000'000;  // about 500 MB

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

// Compiling is not safe in several threads at once; matching is.
std::mutex& compile_mutex() {
  static std::mutex mutex;
  static const bool kReady = [] {
    OnigEncoding utf8 = ONIG_ENCODING_UTF8;
    onig_initialize(&utf8, 1);
    define_newer_characters();
    return true;
  }();
  static_cast<void>(kReady);
  return mutex;
}

std::string error_text(int code, OnigErrorInfo* info) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> buffer{};
  int length = info == nullptr ? onig_error_code_to_str(buffer.data(), code)
                               : onig_error_code_to_str(buffer.data(), code, info);
  return printable({reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(length)}, 200);
}

// What a search writes to and is limited by: one a thread serves every expression.
class Searcher {
 public:
  Searcher() : region_(onig_region_new()), limits_(onig_new_match_param()) {
    onig_set_match_stack_limit_size_of_match_param(limits_.get(), kStackEntries);
  }

  // Where the first match from `start` on begins; negative if there is none, or for an error. Takes dear
  // attempts from `retries`.
  int find(regex_t* code, std::string_view text, size_t start, unsigned long& retries) {
    constexpr unsigned long kUnlimited = 0;
    int found = search(code, text, start, kRetriesOfCheapMatch, kUnlimited);
    for (unsigned long limit = 10 * kRetriesOfCheapMatch;
         limit <= retries &&
         (found == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER || found == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER);
         limit *= 10) {
      retries -= limit;
      found = search(code, text, start, std::min(limit, kRetriesOfMatch), limit);
    }
    return found;
  }
  size_t begin() const { return static_cast<size_t>(region_->beg[0]); }
  size_t end() const { return static_cast<size_t>(region_->end[0]); }

 private:
  struct FreeRegion {
    void operator()(OnigRegion* region) const { onig_region_free(region, 1); }
  };
  struct FreeLimits {
    void operator()(OnigMatchParam* limits) const { onig_free_match_param(limits); }
  };

  int search(regex_t* code, std::string_view text, size_t start, unsigned long retries_in_match,
             unsigned long retries_in_search) {
    onig_set_retry_limit_in_match_of_match_param(limits_.get(), retries_in_match);
    onig_set_retry_limit_in_search_of_match_param(limits_.get(), retries_in_search);
    const OnigUChar* first = bytes_of(text);
    const OnigUChar* last = first + text.size();
    return onig_search_with_param(code, first, last, first + start, last, region_.get(), ONIG_OPTION_NONE,
                                  limits_.get());
  }

  std::unique_ptr<OnigRegion, FreeRegion> region_;
  std::unique_ptr<OnigMatchParam, FreeLimits> limits_;
};

// Whether a character begins or the text ends there.
bool is_boundary(std::string_view text, size_t position) {
  return position == text.size() || !is_utf8_continuation(text[position]);
}

}  // namespace

void Regex::FreeCode::operator()(re_pattern_buffer* code) const {
  onig_free(code);
}

Regex::Regex(const std::string& pattern, const std::string& where)
    : Regex(with_signs_by_name(pattern), Syntax::expression, where) {}

Regex Regex::literal(const std::string& text, const std::string& where) {
  return Regex(text, Syntax::literal, where);
}

Regex::Regex(const std::string& pattern, Syntax syntax, const std::string& where) : where_(where) {
  std::lock_guard<std::mutex> lock(compile_mutex());
  regex_t* code = nullptr;
  OnigErrorInfo info{};
  int result =
      onig_new(&code, bytes_of(pattern), bytes_of(pattern) + pattern.size(), ONIG_OPTION_NONE,
               ONIG_ENCODING_UTF8, syntax == Syntax::literal ? ONIG_SYNTAX_ASIS : ONIG_SYNTAX_DEFAULT, &info);
  if (result != ONIG_NORMAL) {
    throw bad_input(fmt::format("{}: cannot compile the regular expression '{}': {}.", where,
                                printable(pattern, 400), error_text(result, &info)));
  }
  code_.reset(code);
}

void Regex::split(std::string_view text, const Visitor& visit) const {
  thread_local Searcher searcher;
  unsigned long retries = kRetriesOfText + kRetriesOfByte * text.size();
  size_t done = 0;    // everything before it has been visited
  size_t search = 0;  // where the next match may start
  bool matched = false;
  while (search <= text.size() && !text.empty()) {
    int found = searcher.find(code_.get(), text, search, retries);
    if (found == ONIG_MISMATCH) {
      break;
    }
    if (found < 0) {
      throw bad_input(
          fmt::format("{}: the regular expression cannot be matched against a text of {} bytes: {}.", where_,
                      text.size(), error_text(found, nullptr)));
    }
    size_t begin = searcher.begin();
    size_t end = searcher.end();
    if (begin < done || end < begin || !is_boundary(text, begin) || !is_boundary(text, end)) {
      throw bad_input(
          fmt::format("{}: the regular expression matches bytes {} to {} of a text, which are not whole "
                      "characters behind the match before.",
                      where_, begin, end));
    }
    if (begin == end && matched && end == done) {  // an empty match right behind another match is none
      search = end < text.size() ? end + utf8_length_bytes(text[end]) : end + 1;
      continue;
    }
    if (begin > done) {
      visit(text.substr(done, begin - done), false);
    }
    visit(text.substr(begin, end - begin), true);
    matched = true;
    done = end;
    search = end;
  }
  if (done < text.size()) {
    visit(text.substr(done), false);
  }
}

}  // namespace snug
