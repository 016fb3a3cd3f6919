// One line of a terminal that is written over and over: what is said last stands there.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace snug {

// A part of a line. Where the line is wider than the screen, parts of the highest rank are left out first.
struct LinePart {
  std::string text;
  int rank = 0;
};

// The parts that fit into `columns`, each behind two blanks; the last one is cut if it is still too wide.
std::string join_parts(const std::vector<LinePart>& parts, size_t columns);

class LiveLine {
 public:
  // `stream` is stdout or stderr. Without a terminal that can do it nothing is shown.
  explicit LiveLine(std::FILE* stream);
  ~LiveLine() { clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  bool enabled() const { return enabled_; }
  // Columns that the line may take now.
  size_t columns() const;
  // Whether what stands there is old enough to be written over: eyes are not faster.
  bool is_due() const;
  void show(const std::vector<LinePart>& parts);
  // Makes room for text that stays. Nothing happens if no line is shown.
  void clear();

 private:
  // Takes the line away, whatever became of it when the window was made narrower.
  std::string erasure() const;

  std::FILE* stream_;
  bool enabled_;
  size_t shown_columns_ = 0;
  std::chrono::steady_clock::time_point shown_at_;
};

}  // namespace snug
