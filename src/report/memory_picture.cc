// The picture of a plan in a terminal.
#include "report/memory_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/bytes.h"
#include "plan/layout.h"
#include "report/braille.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr int kRows = 9;
constexpr int kLabelColumns = 10;
constexpr int kLeastColumns = 20;
constexpr int kMostColumns = 100;

// The most within the ops that share a column of dots.
std::vector<int64_t> column_heights(const std::vector<int64_t>& live, int columns) {
  std::vector<int64_t> heights(static_cast<size_t>(columns), 0);
  for (size_t column = 0; column < heights.size(); ++column) {
    size_t begin = column * live.size() / heights.size();
    size_t end = std::max(begin + 1, (column + 1) * live.size() / heights.size());
    heights[column] = *std::max_element(live.begin() + static_cast<std::ptrdiff_t>(begin),
                                        live.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return heights;
}

}  // namespace

std::string memory_picture(const Plan& plan, const Style& style) {
  Layout layout = layout_of(plan);
  auto phase = std::find_if(layout.phases.begin(), layout.phases.end(),
                            [&](const PhaseLayout& one) { return one.name == plan.largest_phase().name(); });
  int columns = static_cast<int>(std::min<size_t>(style.columns(), kMostColumns)) - kLabelColumns - 4;
  if (phase == layout.phases.end() || phase->ops.size() < 2 || columns < kLeastColumns) {
    return "";
  }
  BrailleCanvas canvas(columns, kRows);
  int64_t persists = plan.context_bytes + persistent_bytes(layout);
  std::vector<int64_t> live = live_bytes(*phase);
  int64_t top = persists + *std::max_element(live.begin(), live.end());
  auto dots_of = [&](int64_t bytes) {
    return static_cast<int>(
        std::lround(static_cast<double>(bytes) / static_cast<double>(top) * canvas.height()));
  };
  std::vector<int64_t> heights = column_heights(live, canvas.width());
  for (int x = 0; x < canvas.width(); ++x) {
    int low = dots_of(persists);
    int high = dots_of(persists + heights[static_cast<size_t>(x)]);
    for (int y = 0; y < high; ++y) {
      if (y >= low || (x + y) % 2 == 0) {
        canvas.dot(x, canvas.height() - 1 - y);
      }
    }
  }
  std::string text;
  for (int row = 0; row < kRows; ++row) {
    bool labelled = row == 0 || row == kRows - 1 || row == kRows / 2;
    int64_t bytes = row == kRows - 1 ? 0 : top / (kRows - 1) * (kRows - 1 - row);
    std::string label = labelled ? format_bytes(bytes) : "";
    text += fmt::format("  {} {}{}\n", style.dim(pad_left(label, kLabelColumns)),
                        style.dim(labelled ? "┤" : "│"), style.accent(canvas.row(row)));
  }
  auto peak = static_cast<size_t>(std::max_element(live.begin(), live.end()) - live.begin());
  std::string caption =
      fmt::format("{}└ {} ops of {}; dotted: what persists; most at {}", std::string(kLabelColumns + 3, ' '),
                  format_count(std::ssize(phase->ops)), phase->name, phase->ops[peak]);
  text += style.dim(broken_line(caption, style.columns(), kLabelColumns + 5)) + "\n";
  return text;
}

}  // namespace snug
