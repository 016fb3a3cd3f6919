// UTF-8 walking and the byte alphabet against facts from the Unicode Standard and GPT-2's vocabulary.
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/unicode/character_class.h"
#include "text/unicode/forms.h"

namespace snug {
namespace {

TEST(Utf8, ReadsCharactersOfEachLength) {
  struct Case {
    std::string text;
    uint32_t codepoint;
  };
  for (const Case& c : {Case{"A", 0x41}, Case{"\xC3\xA9", 0xE9}, Case{"\xE2\x82\xAC", 0x20AC},
                        Case{"\xF0\x9F\xA6\x99", 0x1F999}, Case{"\xF4\x8F\xBF\xBF", 0x10FFFF}}) {
    Utf8Unit unit = first_utf8_unit(c.text + "tail");
    EXPECT_EQ(unit.status, Utf8Status::valid);
    EXPECT_EQ(unit.length_bytes, c.text.size());
    EXPECT_EQ(unit.codepoint, c.codepoint);
    std::string written;
    append_utf8(written, c.codepoint);
    EXPECT_EQ(written, c.text);
  }
}

TEST(Utf8, TellsIncompleteFromInvalid) {
  EXPECT_EQ(first_utf8_unit("\xF0\x9F\xA6").status, Utf8Status::incomplete);
  EXPECT_EQ(first_utf8_unit("\xE2").status, Utf8Status::incomplete);
  EXPECT_EQ(first_utf8_unit("\x80").status, Utf8Status::invalid);
  EXPECT_EQ(first_utf8_unit("\xC0\x80").status, Utf8Status::invalid);      // overlong
  EXPECT_EQ(first_utf8_unit("\xED\xA0\x80").status, Utf8Status::invalid);  // a surrogate
  EXPECT_EQ(first_utf8_unit("\xF4\x90\x80\x80").status, Utf8Status::invalid);
  EXPECT_EQ(first_utf8_unit("\xFF").status, Utf8Status::invalid);
}

// The example of The Unicode Standard, table 3-11: one U+FFFD for each maximal subpart.
TEST(Utf8, ReplacesMaximalSubparts) {
  EXPECT_EQ(replace_invalid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(valid_utf8_prefix_bytes("ab\xC3\xA9\xFFz"), 4U);
}

TEST(Utf8, KnowsWhiteSpaceAndWordCharacters) {
  for (uint32_t space : {0x09U, 0x20U, 0x85U, 0xA0U, 0x1680U, 0x2003U, 0x2028U, 0x3000U}) {
    EXPECT_TRUE(is_white_space(space)) << space;
  }
  for (uint32_t other : {0x41U, 0x180EU, 0x200BU, 0xFEFFU}) {
    EXPECT_FALSE(is_white_space(other)) << other;
  }
  EXPECT_TRUE(is_word_character('_'));
  EXPECT_TRUE(is_word_character(0x4E2D));
  EXPECT_FALSE(is_word_character('-'));
}

TEST(ByteAlphabet, IsTheOneOfGpt2) {
  const auto& alphabet = byte_alphabet();
  EXPECT_EQ(alphabet['!'], "!");
  EXPECT_EQ(alphabet[0xFF], "ÿ");
  EXPECT_EQ(alphabet[0x00], "\u0100");
  EXPECT_EQ(alphabet['\n'], "Ċ");
  EXPECT_EQ(alphabet[' '], "Ġ");
  EXPECT_EQ(alphabet[0x7F], "\u0121");
  EXPECT_EQ(alphabet[0xA0], "\u0142");
  EXPECT_EQ(alphabet[0xAD], "\u0143");
  EXPECT_EQ(bytes_of_piece("ĠcafÃ©"), " caf\xC3\xA9");
  EXPECT_EQ(bytes_of_piece("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_piece("\u4E2D"), std::nullopt);
}

TEST(Nfc, ComposesAndReplacesInvalidBytes) {
  EXPECT_EQ(normalize_nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(normalize_nfc("Vie\u0302\u0323t"), "Vi\u1EC7t");
  EXPECT_EQ(normalize_nfc("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(normalize_nfc("\u2126"), "\u03A9");  // the ohm sign is a Greek letter
  EXPECT_EQ(normalize_nfc("\xFF"
                          "e\u0301\xC3"),
            "\uFFFD\u00E9\uFFFD");
  EXPECT_EQ(normalize_nfc(std::string("a\0b\u0300", 5)), std::string("a\0b\u0300", 5));
  // A mark that the reference's tables lack: nothing changes places with it.
  EXPECT_EQ(normalize_nfc("a\u08CC\u0336"), "a\u08CC\u0336");
  EXPECT_EQ(normalize_nfc("b\u0301\u0336"), "b\u0336\u0301");
}

}  // namespace
}  // namespace snug
