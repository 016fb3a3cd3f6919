// Cuts the source of a template into tokens.
#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "io/printable.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

// One kind of line end, and no line end at the very end: Jinja's way.
std::string normalise_lines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      result += source[i];
    }
  }
  if (result.ends_with('\n')) {
    result.pop_back();
  }
  return result;
}

bool is_digit(char character) {
  return character >= '0' && character <= '9';
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name) : source_(normalise_lines(source)), name_(name) {
    if (size_t valid = valid_utf8_prefix_bytes(source_); valid < source_.size()) {
      fail(valid, "the template is not UTF-8");
    }
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      size_t begin = find_tag();
      if (begin == std::string::npos) {
        add_text(at_, source_.size());
        at_ = source_.size();
      } else {
        read_tag(begin);
      }
    }
    add(TokenKind::end, at_, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(size_t offset, const std::string& message) {
    Place place = place_of(offset);
    throw bad_input(fmt::format("{}:{}:{}: {}.", name_, place.line, place.column, message));
  }

  // Offsets come in rising order, but for errors: so the count goes on from the last one.
  Place place_of(size_t offset) {
    if (offset < counted_) {
      counted_ = 0;
      counted_place_ = {};
    }
    for (; counted_ < offset; ++counted_) {
      if (source_[counted_] == '\n') {
        ++counted_place_.line;
        counted_place_.column = 1;
      } else if ((static_cast<uint8_t>(source_[counted_]) & 0xC0U) != 0x80U) {
        ++counted_place_.column;
      }
    }
    return counted_place_;
  }

  void add(TokenKind kind, size_t offset, std::string text) {
    tokens_.push_back(Token{.kind = kind, .text = std::move(text), .place = place_of(offset)});
  }

  void add_text(size_t begin, size_t end) {
    if (end > begin) {
      add(TokenKind::text, begin, source_.substr(begin, end - begin));
    }
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  size_t find_tag() const {
    for (size_t i = source_.find('{', at_); i != std::string::npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() &&
          (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
        return i;
      }
    }
    return std::string::npos;
  }

  size_t skip_space(size_t at) const {
    while (at < source_.size()) {
      Utf8Unit unit = first_utf8_unit(std::string_view(source_).substr(at));
      if (!is_space(unit.codepoint)) {
        break;
      }
      at += unit.length_bytes;
    }
    return at;
  }

  // Where the text [at_, begin) before a tag ends once white space control has had its say.
  size_t text_end(size_t begin, char sign, bool is_output) const {
    std::string_view text = std::string_view(source_).substr(at_, begin - at_);
    constexpr StripSides kRight = {.left = false, .right = true};
    if (sign == '-') {
      return at_ + strip(text, kRight).size();
    }
    if (sign == '+' || is_output) {
      return begin;
    }
    size_t line_begin = text.rfind('\n') + 1;  // 0 where there is no line end
    bool only_space = strip(text.substr(line_begin), kRight).empty();
    return only_space && (line_begin > 0 || line_starting_) ? at_ + line_begin : begin;
  }

  void read_tag(size_t begin) {
    char kind = source_[begin + 1];
    size_t inside = begin + 2;
    char sign = inside < source_.size() ? source_[inside] : ' ';
    if (sign == '-' || sign == '+') {
      ++inside;
    }
    add_text(at_, text_end(begin, sign, kind == '{'));
    at_ = inside;
    line_starting_ = false;
    if (kind == '#') {
      size_t close = source_.find("#}", inside);
      if (close == std::string::npos) {
        fail(begin, "a comment begins here with {# and has no end");
      }
      bool signed_close = close > inside && (source_[close - 1] == '-' || source_[close - 1] == '+');
      at_ = close - (signed_close ? 1 : 0);
      close_tag("#}");
    } else if (kind == '%' && skip_raw_begin()) {
      read_raw(begin);
    } else {
      TokenKind first = kind == '%' ? TokenKind::block_begin : TokenKind::output_begin;
      add(first, begin, "");
      read_inside(kind == '%' ? "%}" : "}}", begin);
      add(kind == '%' ? TokenKind::block_end : TokenKind::output_end, at_, "");
      close_tag(kind == '%' ? "%}" : "}}");
    }
  }

  // Moves past the tag's end, and the white space that goes with it: trim_blocks takes one line end after
  // blocks and comments.
  void close_tag(std::string_view close) {
    char sign = source_[at_];
    at_ += close.size() + (sign == '-' || sign == '+' ? 1 : 0);
    if (sign == '-') {
      at_ = skip_space(at_);
    } else if (sign != '+' && close != "}}" && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
    line_starting_ = source_[at_ - 1] == '\n';
  }

  // After "{%" and its sign: moves past the rest of {% raw %}, if that is what it is.
  bool skip_raw_begin() {
    size_t at = skip_space(at_);
    if (source_.compare(at, 3, "raw") != 0) {
      return false;
    }
    at = skip_space(at + 3);
    if (source_.compare(at, 3, "-%}") == 0) {
      at_ = skip_space(at + 3);
    } else if (source_.compare(at, 2, "%}") == 0) {
      at_ = at + 2;
    } else {
      return false;
    }
    line_starting_ = source_[at_ - 1] == '\n';
    return true;
  }

  void read_raw(size_t begin) {
    for (size_t i = source_.find("{%", at_); i != std::string::npos; i = source_.find("{%", i + 2)) {
      size_t inside = i + 2;
      char sign = inside < source_.size() ? source_[inside] : ' ';
      size_t at = skip_space(inside + (sign == '-' || sign == '+' ? 1 : 0));
      if (source_.compare(at, 6, "endraw") != 0) {
        continue;
      }
      at = skip_space(at + 6);
      size_t close = at + (at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? 1 : 0);
      if (source_.compare(close, 2, "%}") == 0) {
        add_text(at_, text_end(i, sign, false));
        at_ = at;
        close_tag("%}");
        return;
      }
    }
    fail(begin, "a raw block begins here and has no end; {% endraw %} is missing");
  }

  // True at the end of the tag, with or without a sign before it.
  bool at_close(std::string_view close) const {
    std::string_view here = rest();
    bool plus = close == "%}" && here.starts_with('+');
    return here.starts_with(close) || ((here.starts_with('-') || plus) && here.substr(1).starts_with(close));
  }

  void read_inside(std::string_view close, size_t tag_begin) {
    std::string open_brackets;
    while (true) {
      at_ = skip_space(at_);
      if (at_ >= source_.size()) {
        fail(tag_begin, fmt::format("the tag that begins here has no end; {} is missing", close));
      }
      if (open_brackets.empty() && at_close(close)) {
        return;
      }
      char first = source_[at_];
      if (is_digit(first)) {
        read_number();
      } else if (first == '"' || first == '\'') {
        read_string(first);
      } else if (is_word(first_utf8_unit(rest()).codepoint)) {
        read_name();
      } else {
        read_symbol(open_brackets);
      }
    }
  }

  void read_name() {
    size_t begin = at_;
    while (at_ < source_.size() && is_word(first_utf8_unit(rest()).codepoint)) {
      at_ += first_utf8_unit(rest()).length_bytes;
    }
    add(TokenKind::name, begin, source_.substr(begin, at_ - begin));
  }

  void skip_digits(std::string& digits) {
    while (at_ < source_.size() &&
           (is_digit(source_[at_]) ||
            (source_[at_] == '_' && at_ + 1 < source_.size() && is_digit(source_[at_ + 1])))) {
      if (source_[at_] != '_') {
        digits += source_[at_];
      }
      ++at_;
    }
  }

  void read_number() {
    size_t begin = at_;
    std::string digits;
    skip_digits(digits);
    auto digit_at = [&](size_t at) { return at < source_.size() && is_digit(source_[at]); };
    bool is_real = false;
    bool after_dot = begin > 0 && source_[begin - 1] == '.';  // x.0.1 has two positions, no fraction
    if (!after_dot && rest().starts_with('.') && digit_at(at_ + 1)) {
      is_real = true;
      digits += '.';
      ++at_;
      skip_digits(digits);
    }
    if (!after_dot && at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      size_t sign = at_ + 1 < source_.size() && (source_[at_ + 1] == '+' || source_[at_ + 1] == '-') ? 1 : 0;
      if (digit_at(at_ + 1 + sign)) {
        is_real = true;
        digits += 'e';
        digits += sign != 0 ? source_.substr(at_ + 1, 1) : "";
        at_ += 1 + sign;
        skip_digits(digits);
      }
    }
    Token token{.kind = is_real ? TokenKind::real : TokenKind::integer,
                .text = source_.substr(begin, at_ - begin),
                .place = place_of(begin)};
    const char* last = digits.data() + digits.size();
    auto result = is_real ? std::from_chars(digits.data(), last, token.real)
                          : std::from_chars(digits.data(), last, token.integer);
    if (result.ec != std::errc() || result.ptr != last) {
      fail(begin, fmt::format("the number {} is too large", printable(token.text, 60)));
    }
    tokens_.push_back(std::move(token));
  }

  void read_string(char quote) {
    size_t begin = at_++;
    while (at_ < source_.size() && source_[at_] != quote) {
      at_ += source_[at_] == '\\' ? 2 : 1;
    }
    if (at_ >= source_.size()) {
      fail(begin, "a string begins here and has no end");
    }
    std::optional<std::string> decoded =
        decode_string_literal(std::string_view(source_).substr(begin + 1, at_ - begin - 1));
    if (!decoded) {
      fail(begin, "the string has an escape (such as \\x, \\u or \\N) that is damaged or not supported");
    }
    ++at_;
    add(TokenKind::string, begin, std::move(*decoded));
  }

  void read_symbol(std::string& open_brackets) {
    constexpr std::array<std::string_view, 7> kLong = {"//", "**", "==", "!=", "<=", ">=", ""};
    constexpr std::string_view kShort = "+-/*%~[](){}<>=.:|,;";
    std::string_view here = rest();
    std::string symbol(*std::find_if(kLong.begin(), kLong.end(),
                                     [&](std::string_view known) { return here.starts_with(known); }));
    if (symbol.empty() && kShort.find(here[0]) != std::string_view::npos) {
      symbol = here[0];
    }
    if (symbol.empty()) {
      size_t length = first_utf8_unit(here).length_bytes;
      fail(at_, fmt::format("unexpected character {}", in_quotes(here.substr(0, length))));
    }
    constexpr std::string_view kOpen = "([{";
    constexpr std::string_view kClose = ")]}";
    if (kOpen.find(symbol[0]) != std::string_view::npos) {
      open_brackets += kClose[kOpen.find(symbol[0])];
    } else if (kClose.find(symbol[0]) != std::string_view::npos) {
      if (open_brackets.empty() || open_brackets.back() != symbol[0]) {
        fail(at_, fmt::format("unexpected '{}'", symbol));
      }
      open_brackets.pop_back();
    }
    size_t begin = at_;
    at_ += symbol.size();
    add(TokenKind::symbol, begin, std::move(symbol));
  }

  std::string source_;
  const std::string& name_;
  size_t at_ = 0;
  bool line_starting_ = true;
  size_t counted_ = 0;
  Place counted_place_;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> cut_into_tokens(std::string_view source, const std::string& name) {
  constexpr size_t kMaxBytes = size_t{1} << 20;  // the largest that models ship have a hundredth of it
  if (source.size() > kMaxBytes) {
    throw bad_input(
        fmt::format("{}: the template has {} bytes; one of more than {} may be damaged or hostile.", name,
                    source.size(), kMaxBytes));
  }
  return Lexer(source, name).run();
}

}  // namespace snug::jinja
