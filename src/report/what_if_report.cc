// A row a remedy.
#include "report/what_if_report.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/bytes.h"
#include "report/layout.h"

namespace snug {
namespace {

// In one word, for a column.
std::string_view changes_text(Sameness changes) {
  constexpr std::array<std::string_view, 4> kWords = {"no bit", "rounding", "numerics", "experiment"};
  return kWords[static_cast<size_t>(changes)];
}

std::string saved_text(int64_t bytes) {
  return bytes == 0 ? "nothing" : (bytes < 0 ? "-" : "") + format_bytes(std::abs(bytes));
}

std::string time_text(double slower) {
  double percent = std::round(100 * slower);
  return percent == 0 ? "·" : fmt::format("{:+.0f}%", percent);
}

}  // namespace

std::string what_if_report(const WhatIf& found, const std::string& name, const Style& style) {
  Table table;
  table.header = {"each alone", "saves", "time", "changes", "fits"};
  for (const TriedRemedy& one : found.tried) {
    table.rows.push_back({one.remedy, saved_text(one.saved_bytes), time_text(one.slower),
                          std::string(changes_text(one.changes)), one.fits ? "yes" : "no"});
  }
  std::string stage = name.empty() ? "" : fmt::format("  {}  {}\n", style.dim("stage "), style.bold(name));
  std::string text = fmt::format(
      "{}  {}  {} ({} bytes) as the recipe is, with nothing computed again that it "
      "does not ask for\n\n",
      stage, style.dim("takes "), format_bytes(found.peak_bytes), format_count(found.peak_bytes));
  text += table.to_text(style);
  text +=
      "\n  time: for a sequence. snug plan and snug train choose what is free by themselves; snug fit writes "
      "it down.\n";
  return fit_lines(text, style);
}

Json what_if_json(const WhatIf& found) {
  Json tried = Json::array();
  for (const TriedRemedy& one : found.tried) {
    tried.push_back({{"remedy", one.remedy},
                     {"saved_bytes", one.saved_bytes},
                     {"sequence_time", 1 + one.slower},
                     {"result", name_of(one.changes)},
                     {"fits", one.fits}});
  }
  return {{"peak_bytes", found.peak_bytes}, {"what_if", tried}};
}

}  // namespace snug
