// SentencePiece's table of replacements: what it does, and what a damaged one must not do.
#include "text/tokenizer/charsmap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "io/file_fixtures.h"

namespace snug {
namespace {

// A table whose trie holds one key of one byte, with its replacement at `begin`.
std::string table_of(char key, const std::string& replacements, uint32_t begin) {
  constexpr uint32_t kOffset = 256;
  std::vector<uint32_t> trie(512, 0);
  auto byte = static_cast<uint8_t>(key);
  trie[0] = kOffset << 10;
  trie[kOffset ^ byte] = byte | (1U << 8) | (1U << 10);  // it has a leaf, one beside it
  trie[kOffset ^ byte ^ 1U] = 0x80000000U | begin;
  auto size = static_cast<uint32_t>(trie.size() * sizeof(uint32_t));
  std::string table(sizeof(size) + size, '\0');
  std::memcpy(table.data(), &size, sizeof(size));
  std::memcpy(table.data() + sizeof(size), trie.data(), size);
  return table + replacements;
}

std::string replaced(const std::string& table, std::string_view text) {
  std::string result;
  return Charsmap(table, "file").apply(text, result) ? result : std::string(text);
}

TEST(Charsmap, ReplacesByWholeCharacters) {
  const std::string replacements("x\0é\0", 5);
  EXPECT_EQ(replaced(table_of('a', replacements, 0), "banana"), "bxnxnx");
  EXPECT_EQ(replaced(table_of('a', replacements, 2), "banana"), "bénéné");
  EXPECT_EQ(replaced(table_of('a', replacements, 5), "banana"), "bnn");
}

// The text behind such a table would end inside a character, and what reads it would read on.
TEST(Charsmap, RefusesReplacementsThatAreNotWholeCharacters) {
  auto problem = [](const std::string& replacements, uint32_t begin) {
    return error_text(ErrorKind::bad_input, [&] { Charsmap(table_of('a', replacements, begin), "file"); });
  };
  EXPECT_EQ(problem(std::string("x\0\xE2\x96\0", 5), 2),
            "file: the replacements are not UTF-8 from byte 2 on. The file is damaged: download it again.");
  EXPECT_EQ(problem(std::string("x\0é\0", 5), 3),
            "file: node 353 has its replacement at byte 3 of 5, where none begins. The file is damaged: "
            "download it again.");
  EXPECT_EQ(problem("x", 2),
            "file: node 353 has its replacement at byte 2 of 1, where none begins. The file is damaged: "
            "download it again.");
}

}  // namespace
}  // namespace snug
