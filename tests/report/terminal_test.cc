// Lines that are written over, on terminals and elsewhere.
#include "report/terminal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "report/console.h"
#include "report/live_line.h"
#include "report/work_line.h"
#include "support/pseudo_terminal.h"
#include "support/screen.h"

namespace snug {
namespace {

TEST(LiveLine, TheLeastImportantPartsGiveWay) {
  std::vector<LinePart> parts = {{"██████████", 3}, {"12/400", 0}, {"loss 1.2345", 1}, {"lr 1.00e-04", 4}};
  EXPECT_EQ(join_parts(parts, 200), "  ██████████  12/400  loss 1.2345  lr 1.00e-04");
  EXPECT_EQ(join_parts(parts, 40), "  ██████████  12/400  loss 1.2345");
  EXPECT_EQ(join_parts(parts, 25), "  12/400  loss 1.2345");
  EXPECT_EQ(join_parts(parts, 8), "  12/400");
  EXPECT_EQ(join_parts(parts, 6), "  12/…") << "never wider";
}

class Terminals : public testing::Test {
 protected:
  Terminals() {
    setenv("TERM", "xterm", 1);
    unsetenv("COLUMNS");
  }

  std::FILE* open_stream(const PseudoTerminal& terminal) {
    stream_ = fdopen(dup(terminal.slave()), "w");
    return stream_;
  }
  ~Terminals() override {
    if (stream_ != nullptr) {
      std::fclose(stream_);
    }
  }

 private:
  std::FILE* stream_ = nullptr;
};

TEST_F(Terminals, TheWidthIsTheWindowsAndNoMoreThanColumns) {
  PseudoTerminal terminal(72);
  std::FILE* stream = open_stream(terminal);
  EXPECT_EQ(columns_of(stream), 72U);
  terminal.resize(133);
  EXPECT_EQ(columns_of(stream), 133U);
  setenv("COLUMNS", "60", 1);
  EXPECT_EQ(columns_of(stream), 60U);
  setenv("COLUMNS", "200", 1);
  EXPECT_EQ(columns_of(stream), 133U) << "more would wrap";
  terminal.resize(0);
  EXPECT_EQ(columns_of(stream), 200U) << "a line that does not know its width";
  setenv("COLUMNS", "none", 1);
  EXPECT_EQ(columns_of(stream), 80U);
  unsetenv("COLUMNS");
  EXPECT_EQ(columns_of(stream), 80U);
}

TEST_F(Terminals, DumbOnesAreNotWrittenOver) {
  PseudoTerminal terminal(80);
  std::FILE* stream = open_stream(terminal);
  EXPECT_TRUE(can_rewrite_lines(stream));
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(can_rewrite_lines(stream));
  EXPECT_FALSE(Style::of(stream).coloured());
  LiveLine line(stream);
  line.show({{"12/400", 0}});
  line.clear();
  EXPECT_EQ(terminal.read_waiting(), "");
  unsetenv("TERM");
  EXPECT_FALSE(can_rewrite_lines(stream));
}

// A line of `count` parts of ten columns.
std::vector<LinePart> parts_of(int count) {
  std::vector<LinePart> parts;
  for (int i = 0; i < count; ++i) {
    parts.push_back({"part " + std::string(3, static_cast<char>('a' + i)), i});
  }
  return parts;
}

TEST_F(Terminals, TheLiveLineStaysOneLineAtEveryWidth) {
  // Dragged about, and attached again at another width.
  const size_t widths[] = {120, 60, 200, 80, 61, 100, 20, 90};
  PseudoTerminal terminal(widths[0]);
  Screen screen(widths[0]);
  std::FILE* stream = open_stream(terminal);
  LiveLine line(stream);
  say("  before\r\n", stream);
  for (size_t columns : widths) {
    screen.write(terminal.read_waiting());
    terminal.resize(columns);
    screen.resize(columns);
    for (int i = 0; i < 3; ++i) {
      line.show(parts_of(20));
      screen.write(terminal.read_waiting());
      EXPECT_EQ(screen.wrapped_rows(), 0U) << screen.text();
      EXPECT_EQ(screen.lines().size(), 2U) << screen.text();
      EXPECT_EQ(screen.lines()[0], "  before");
      EXPECT_TRUE(screen.lines()[1].starts_with("  part aaa")) << screen.text();
    }
  }
  line.clear();
  say("  after\r\n", stream);
  screen.write(terminal.read_waiting());
  EXPECT_EQ(screen.text(), "  before\n  after\n\n");
  EXPECT_TRUE(screen.understood_everything());
}

TEST_F(Terminals, WorkIsSeenOnALiveLine) {
  PseudoTerminal terminal(60);
  std::FILE* stream = open_stream(terminal);
  LiveLine line(stream);
  WorkLine work(line, stream);
  WorkLine::Clock::time_point start;
  Screen screen(60);
  work.show({"evaluating", 1, 40, ""}, start);
  EXPECT_EQ(terminal.read_waiting(), "") << "it may be over at once";
  work.show({"evaluating", 10, 40, "3 of 5"}, start + std::chrono::seconds(2));
  screen.write(terminal.read_waiting());
  EXPECT_EQ(screen.text(), "  evaluating  ████░░░░░░░░░░░░  25%  3 of 5  6s left\n");
}

TEST_F(Terminals, ElsewhereWorkSaysALineWhereItTakesLong) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  LiveLine line(file);
  WorkLine work(line, file);
  WorkLine::Clock::time_point start;
  auto show = [&](int64_t done, int seconds) {
    work.show({"evaluating", done, 100, ""}, start + std::chrono::seconds(seconds));
    std::fflush(file);
    return std::string(text, size);
  };
  EXPECT_EQ(show(0, 0), "");
  EXPECT_EQ(show(9, 9), "");
  std::string first = "  evaluating  █░░░░░░░░░░░░░░░  12%  1m 28s left\n";
  EXPECT_EQ(show(12, 12), first);
  EXPECT_EQ(show(40, 40), first) << "the next one after half a minute";
  EXPECT_EQ(show(50, 50), first + "  evaluating  ████████░░░░░░░░  50%  50s left\n");
  std::fclose(file);
  std::free(text);
}

}  // namespace
}  // namespace snug
