// Untrusted text on a terminal: nothing in it is obeyed.
#include "io/printable.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(Printable, ControlCharactersAreWrittenOut) {
  EXPECT_EQ(printable("a\x1b[31mb\n\x7f"), "a\\x1b[31mb\\x0a\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m")
      << "the one-byte form of ESC [";
  EXPECT_EQ(printable("exe.\xE2\x80\xAEgpj"), "exe.\\u202egpj") << "turns the direction of writing";
  EXPECT_EQ(printable("\xE2\x81\xA6x\xE2\x81\xA9"), "\\u2066x\\u2069");
  EXPECT_EQ(printable("caf\xC3\xA9 \xE2\x80\x9Cx\xE2\x80\x9D \xE2\x82\xAC \xC2\xA0"),
            "caf\xC3\xA9 \xE2\x80\x9Cx\xE2\x80\x9D \xE2\x82\xAC \xC2\xA0");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("ab\xC3\xA9", 3), "ab...") << "no half characters";
}

TEST(Printable, LinesKeepTheirEnds) {
  EXPECT_EQ(printable_lines("a\n\tb\x1b]0;x\x07\rc"), "a\n\tb\\x1b]0;x\\x07\\x0dc");
  std::string large(1000, 'x');
  EXPECT_EQ(printable_lines(large), large);
}

}  // namespace
}  // namespace snug
