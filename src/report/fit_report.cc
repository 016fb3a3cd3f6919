// A table, its reasons, and the verdict.
#include "report/fit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "fit/recompute_search.h"
#include "recipe/effective_batch.h"
#include "report/layout.h"
#include "report/plan_report.h"

namespace snug {
namespace {

std::string percent(double slower) {
  double value = std::round(100 * slower);
  return value == 0 ? "·" : fmt::format("{:+.0f}%", value);
}

// A list of layers is too long for a cell.
std::string cell(const std::string& key, const std::string& value, const Recipe& recipe) {
  if (key != "memory.recompute" || !value.starts_with('[')) {
    return value;
  }
  const std::vector<Recompute>& policies = recipe.memory.recompute;
  int64_t kept = std::count(policies.begin(), policies.end(), Recompute::none);
  return fmt::format("in {} layers", std::ssize(policies) - kept);
}

// What a cell has no room for.
std::string reason_text(const FitChange& change, const FittedStage& stage) {
  std::string chosen = change.key == "memory.recompute"
                           ? fmt::format(" ({})", describe_recompute(stage.after, stage.plan))
                           : "";
  return fmt::format("{}{}; {}", change.reason, chosen, name_of(change.sameness));
}

std::string bytes_text(int64_t saved) {
  return saved == 0 ? "·" : (saved < 0 ? "-" : "") + format_bytes(std::abs(saved));
}

std::string change_table(const FittedStage& stage, const Style& style) {
  Table table;
  table.header = {"key", "before", "after", "saves", "time"};
  for (const FitChange& change : stage.changes) {
    table.rows.push_back({change.key, cell(change.key, change.before, stage.before),
                          cell(change.key, change.after, stage.after), bytes_text(change.saved_bytes),
                          percent(change.slower)});
  }
  table.rules_before = {table.rows.size()};
  table.rows.push_back(
      {"together", "", "", bytes_text(stage.before_bytes - stage.plan.peak_bytes()), percent(stage.slower)});
  std::string text = "\n" + table.to_text(style) + "\n";
  for (const FitChange& change : stage.changes) {
    text += fmt::format("  {}  {}\n", style.dim(change.key), reason_text(change, stage));
  }
  return text + "\n";
}

// What stayed: the things that people change by guess.
std::string experiment_line(const FittedStage& stage, const Style& style) {
  auto values = [](const Recipe& recipe) {
    std::string text = fmt::format("{} {} a step, up to {} tokens each", effective_batch(recipe.training),
                                   recipe.data.packing ? "packs" : "sequences", recipe.data.max_length);
    return recipe.lora ? text + fmt::format(", r={}", recipe.lora->r) : text + ", all weights trained";
  };
  std::string before = values(stage.before);
  std::string after = values(stage.after);
  return before == after ? fmt::format("  {}  {}\n", style.dim("stays  "), after)
                         : fmt::format("  {}  {}, before: {}\n", style.dim("trains "), after, before);
}

std::string verdict(const FittedStage& stage, const Style& style) {
  if (!stage.plan.fits()) {
    return does_not_fit_report(stage.plan, *stage.offers, style);
  }
  return experiment_line(stage, style) +
         fmt::format("  {} {} ({} bytes)\n", style.bold("peak"), format_bytes(stage.plan.peak_bytes()),
                     format_count(stage.plan.peak_bytes())) +
         limit_line(stage.plan, style);
}

std::string stage_text(const FittedStage& stage, const Style& style) {
  const std::string& name = stage.before.stage.name;
  std::string text = name.empty() ? "" : fmt::format("\n  {}  {}\n", style.dim("stage  "), style.bold(name));
  int64_t over = stage.before_bytes - *stage.plan.limit_bytes;
  text += fmt::format("  {}  {} as it is{}: {} {}\n", style.dim("takes  "), format_bytes(stage.before_bytes),
                      stage.before.memory.recompute.empty() ? ", with nothing computed again" : "",
                      format_bytes(std::abs(over)), over > 0 ? "too much" : "to spare");
  if (stage.changes.empty()) {
    return text + (stage.plan.fits() ? "  nothing has to change\n" : "") + verdict(stage, style);
  }
  return text + change_table(stage, style) + verdict(stage, style);
}

Json change_json(const FitChange& change) {
  return {{"key", change.key},
          {"before", change.before},
          {"after", change.after},
          {"reason", change.reason},
          {"result", name_of(change.sameness)},
          {"saved_bytes", change.saved_bytes},
          {"step_time", change.slower}};
}

}  // namespace

std::string fit_report(const FittedRun& run, const std::string& device, const Style& style) {
  std::string text = fmt::format("  {}  {}\n  {}  {}\n", style.dim("device "), device, style.dim("model  "),
                                 run.stages.front().before.model.path);
  for (const FittedStage& stage : run.stages) {
    text += stage_text(stage, style);
  }
  return fit_lines(text, style);
}

Json fit_json(const FittedRun& run) {
  Json stages = Json::array();
  for (const FittedStage& stage : run.stages) {
    Json changes = Json::array();
    for (const FitChange& change : stage.changes) {
      changes.push_back(change_json(change));
    }
    stages.push_back({{"fits", stage.plan.fits()},
                      {"before_bytes", stage.before_bytes},
                      {"peak_bytes", stage.plan.peak_bytes()},
                      {"limit_bytes", *stage.plan.limit_bytes},
                      {"step_time", 1 + stage.slower},
                      {"changes", changes}});
    if (!stage.before.stage.name.empty()) {
      stages.back()["stage"] = stage.before.stage.name;
    }
  }
  return {{"fits", run.fits()}, {"settings", run.settings}, {"stages", stages}};
}

}  // namespace snug
