// Text that has to fit a screen: widths, line breaks, tables, curves.
#include "report/layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "report/loss_curve.h"
#include "report/recent_speed.h"
#include "report/terminal.h"

namespace snug {
namespace {

size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, display_width(line));
  }
  return widest;
}

TEST(Layout, WidthCountsColumnsAndNoColours) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("█░·"), 3U);
  EXPECT_EQ(display_width("\x1b[31;1mred\x1b[0m"), 3U);
  EXPECT_EQ(display_width("狐と川"), 6U) << "two columns each";
  EXPECT_EQ(display_width("e\u0301"), 1U) << "an accent stands above";
  EXPECT_EQ(display_width("🦊"), 2U);
  EXPECT_EQ(display_width("\xff"), 1U) << "no UTF-8: one replacement character";
}

TEST(Layout, CutsToAWidth) {
  EXPECT_EQ(cut_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_width("abcdef", 4), "abc…");
  EXPECT_EQ(cut_to_width("狐と川", 4), "狐…") << "a second one would end in column 5";
  EXPECT_EQ(cut_to_width("\x1b[2mabcdef\x1b[0m", 4), "\x1b[2mabc\x1b[0m…") << "the colour ends";
}

TEST(Layout, WhatDiffersIsStillSeenToDiffer) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(cut_where_they_differ({"abcdef", "abcdxy"}, 6), (Texts{"abcdef", "abcdxy"}));
  EXPECT_EQ(cut_where_they_differ({"abcdef", "xbcdef"}, 4), (Texts{"abc…", "xbc…"}));
  EXPECT_EQ(
      cut_where_they_differ({"/home/me/data/a.jsonl", "/home/me/data/b.jsonl", "/home/me/data/a.jsonl"}, 12),
      (Texts{"…/a.jsonl", "…/b.jsonl", "…/a.jsonl"}));
  EXPECT_EQ(cut_where_they_differ({"/data/é.jsonl", "/data/è.jsonl"}, 6), (Texts{"…/é.j…", "…/è.j…"}));
  EXPECT_EQ(cut_where_they_differ({"aaaaaaaaé", "aaaaaaaaè"}, 4), (Texts{"…é", "…è"}))
      << "their first bytes are the same";
  EXPECT_EQ(cut_where_they_differ({"abcdef", "abcdef"}, 4), (Texts{"abc…", "abc…"}));
}

TEST(Layout, LinesGoOnUnderTheirText) {
  Style narrow(false, 24);
  EXPECT_EQ(fit_lines("  data    one two three four five\n  short\n", narrow),
            "  data    one two three\n"
            "          four five\n"
            "  short\n");
  EXPECT_EQ(fit_lines("  no label here, only a sentence", narrow),
            "  no label here, only a\n"
            "    sentence");
  EXPECT_EQ(fit_lines("  saved  /a/path/that/is/longer/than/the/screen", narrow),
            "  saved  /a/path/that/is/longer/than/the/screen")
      << "it can be copied";
  EXPECT_EQ(fit_lines("\n\nx\n", narrow), "\n\nx\n");
  EXPECT_EQ(broken_lines("狐と川の灯 fox", 6), "狐と川\nの灯\nfox") << "such text has no blanks";
}

TEST(Layout, TablesFitEveryScreenAndLoseNothing) {
  Table table;
  table.header = {"memory on cpu", "load", "train", "update", "evaluate", "save"};
  table.rows = {{"base weights", "14.19 GiB", "14.18 GiB", "14.17 GiB", "14.16 GiB", "14.15 GiB"},
                {"peak", "8.3 MiB", "57.8 MiB", "7.6 MiB", "15.8 MiB", "9.3 MiB"}};
  table.rules_before = {1};
  std::string whole = table.to_text(Style(false));
  for (size_t columns = 60; columns <= 200; ++columns) {
    std::string text = table.to_text(Style(false, columns));
    EXPECT_LE(widest_line(text), columns);
    for (const auto& row : table.rows) {
      for (const std::string& cell : row) {
        EXPECT_NE(text.find(cell), std::string::npos) << cell << " at " << columns;
      }
    }
  }
  EXPECT_EQ(table.to_text(Style(false, 200)), whole);
  EXPECT_NE(table.to_text(Style(false, 40)), whole);
}

TEST(RecentSpeed, FirstStepsAreForgotten) {
  RecentSpeed speed;
  EXPECT_EQ(speed.median(), 0);
  for (int i = 0; i < 50; ++i) {
    speed.add(10, 1);
  }
  EXPECT_EQ(speed.median(), 10);
  for (int i = 0; i < 51; ++i) {
    speed.add(37144, 1);
  }
  EXPECT_EQ(speed.median(), 37144) << "the later half has none of the slow ones";
}

TEST(RecentSpeed, AStepThatWasHeldUpDoesNotMoveIt) {
  RecentSpeed speed;
  for (int i = 0; i < 300; ++i) {
    speed.add(i % 10 == 0 ? 1 : 500, 1);
  }
  EXPECT_EQ(speed.median(), 500);
}

// A run that goes on at step 900 has heard of few steps.
TEST(RecentSpeed, TimeIsThatOfTheStepsThatWereSeen) {
  RecentSpeed speed;
  EXPECT_EQ(speed.seconds_for(5), 0);
  speed.add(100, 2);
  speed.add(100, 4);
  EXPECT_EQ(speed.seconds_for(5), 15);
}

TEST(LossCurve, SmoothingKeepsBothEnds) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 500; ++i) {
    points.push_back({static_cast<double>(i), 2 + std::sin(i * 2.1)});
  }
  std::vector<CurvePoint> curve = smoothed(points);
  ASSERT_EQ(curve.size(), points.size());
  EXPECT_EQ(curve.front().loss, points.front().loss);
  EXPECT_EQ(curve.back().loss, points.back().loss);
  EXPECT_NEAR(curve[250].loss, 2, 0.1);  // a wave around 2
  EXPECT_EQ(smoothed({}).size(), 0U);
}

}  // namespace
}  // namespace snug
