// Words for shells, as a shell reads them.
#include "io/shell_word.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

namespace snug {
namespace {

TEST(ShellWord, PlainWordsStayAsTheyAre) {
  for (const char* word : {"runs/first-1.yml", "training.max_steps=5", "läufe/é.yml", "a@b%c+d:e,f"}) {
    EXPECT_EQ(shell_word(word), word);
  }
}

TEST(ShellWord, AShellReadsBackWhatWasMeant) {
  for (std::string word :
       {"", "my runs/a.yml", "it's", "~/x", "$HOME", "lora={r: 4}", "a;b", "x\\y", "*", "\"q\""}) {
    std::FILE* shell = popen(("printf %s " + shell_word(word)).c_str(), "r");
    ASSERT_NE(shell, nullptr);
    std::array<char, 64> buffer{};
    size_t count = fread(buffer.data(), 1, buffer.size(), shell);
    EXPECT_EQ(pclose(shell), 0) << word;
    EXPECT_EQ(std::string(buffer.data(), count), word);
  }
}

}  // namespace
}  // namespace snug
