// Rows of a file that grows while it is read, and that a run which goes on begins anew.
#include "io/growing_rows.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace snug {
namespace {

void write(const std::filesystem::path& file, const std::string& text, bool append) {
  std::ofstream(file, append ? std::ios::app : std::ios::trunc) << text;
}

std::string row(int step, double time) {
  return Json({{"step", step}, {"time", time}}).dump() + "\n";
}

class Rows : public testing::Test {
 protected:
  RowNews news() {
    RowNews found = read_new_rows(file_, last_.offset, last_.mark);
    last_ = found;
    return found;
  }
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "metrics.jsonl";
  RowNews last_;
};

TEST_F(Rows, ComeOnceEachAndOnlyWhole) {
  EXPECT_EQ(news().rows.size(), 0U) << "no file yet";
  write(file_, row(1, 10) + row(2, 11), false);
  EXPECT_EQ(news().rows.size(), 2U);
  EXPECT_EQ(news().rows.size(), 0U);
  std::string third = row(3, 12);
  write(file_, third.substr(0, 5), true);
  EXPECT_EQ(news().rows.size(), 0U) << "half a row";
  write(file_, third.substr(5), true);
  RowNews last = news();
  ASSERT_EQ(last.rows.size(), 1U);
  EXPECT_EQ(last.rows[0]["step"], 3);
  EXPECT_GT(last.from, 0);
}

TEST_F(Rows, BeginAgainWhereAResumeHasWrittenThemAnew) {
  write(file_, row(1, 10) + row(2, 11) + row(3, 12), false);
  news();
  // Shorter than what was read; then longer, with other bytes before that place.
  write(file_, row(1, 10), false);
  RowNews shorter = news();
  EXPECT_EQ(shorter.from, 0);
  EXPECT_EQ(shorter.rows.size(), 1U);
  write(file_, row(1, 10) + row(2, 11) + row(3, 12), false);
  news();
  write(file_, row(1, 10) + row(2, 51) + row(3, 52) + row(4, 53), false);
  RowNews anew = news();
  EXPECT_EQ(anew.from, 0);
  ASSERT_EQ(anew.rows.size(), 4U);
  EXPECT_EQ(anew.rows[1]["time"], 51.0);
}

TEST_F(Rows, ComeInPiecesAndWithoutWhatIsNoRow) {
  std::string deep = std::string(100'000, '[') + std::string(100'000, ']') + "\n";
  write(file_, row(1, 10) + "not a row\n[1]\n{\"step\": " + deep + deep + row(2, 11), false);
  EXPECT_EQ(news().rows.size(), 2U);
  last_ = {};
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += row(i, i);
  }
  write(file_, text, false);
  size_t found = 0;
  int answers = 0;
  for (bool more = true; more; ++answers) {
    RowNews part = read_new_rows(file_, last_.offset, last_.mark, 200);
    found += part.rows.size();
    more = part.more;
    last_ = part;
  }
  EXPECT_EQ(found, 100U);
  EXPECT_GT(answers, 5);
}

}  // namespace
}  // namespace snug
