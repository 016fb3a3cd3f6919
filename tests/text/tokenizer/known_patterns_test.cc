// The expressions written out by hand against Oniguruma, on random text.
#include "text/tokenizer/known_patterns.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "text/tokenizer/regex.h"

namespace snug {
namespace {

const char* const kExpressions[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

// Mostly what decides: quotes, letters of contractions, digits, all kinds of white space; some of everything
// else.
std::string random_text(Rng& rng) {
  static const std::string kCommon[] = {
      "'",      "s",      "S",      "t",          "re",     "VE",     "m", "ll",    "lL",     "d",
      " ",      " ",      "  ",     "\n",         "\r",     "\t",     "1", "23",    "٣",      "½",
      "a",      "é",      "Ж",      "中",         "文",     ".",      "-", "!",     "\u00A0", "\u3000",
      "\u0301", "\u017F", "\u200D", "\U0001F999", "\u2028", "\u0085", "_", "\u180E"};
  std::string text;
  for (uint64_t i = 0, length = rng.below(30); i < length; ++i) {
    if (rng.below(8) != 0) {
      text += kCommon[rng.below(std::size(kCommon))];
    } else {
      append_utf8(text, static_cast<uint32_t>(rng.below(0xD800)) + 1);
    }
  }
  return text;
}

TEST(KnownPatterns, MatchAsTheExpressionsDo) {
  Rng rng(3);
  for (const char* expression : kExpressions) {
    Regex regex(expression, "test");
    std::optional<KnownPattern> known = KnownPattern::find(expression);
    ASSERT_TRUE(known);
    for (int round = 0; round < 20000; ++round) {
      std::string text = random_text(rng);
      std::vector<std::string> expected;
      regex.split(text, [&](std::string_view piece, bool /*is_match*/) { expected.emplace_back(piece); });
      std::vector<std::string> found;
      for (size_t begin = 0; begin < text.size();) {
        size_t end = known->match_end(text, begin);
        ASSERT_GT(end, begin);
        found.push_back(text.substr(begin, end - begin));
        begin = end;
      }
      ASSERT_EQ(found, expected) << text;
    }
  }
  EXPECT_FALSE(KnownPattern::find("\\s+"));
}

}  // namespace
}  // namespace snug
