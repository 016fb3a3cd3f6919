// Cuts the source of a template into tokens. White space control (`-`, `+`, and transformers' settings
// trim_blocks and lstrip_blocks) is done here, as in Jinja itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/syntax.h"

namespace snug::jinja {

enum class TokenKind : uint8_t {
  text,  // outside of tags
  output_begin,
  output_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  symbol,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // decoded, for strings
  Place place;
  int64_t integer = 0;
  double real = 0;
};

// Throws bad_input with the template's name, line and column.
std::vector<Token> cut_into_tokens(std::string_view source, const std::string& name);

}  // namespace snug::jinja
