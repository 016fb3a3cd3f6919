// Tables of what differs: settings, parameters, bytes, time, and of runs how they went.
#include "report/diff_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/bytes.h"
#include "fit/recompute_search.h"
#include "io/printable.h"
#include "recipe/write.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr const char* kNothing = "·";
constexpr size_t kShownValue = 48;
constexpr size_t kReadValue = 4096;  // bytes, of which what differs is shown
constexpr size_t kShownFingerprint = 16;

std::string signed_bytes(int64_t bytes) {
  return bytes == 0 ? kNothing : fmt::format("{}{}", bytes > 0 ? "+" : "−", format_bytes(std::abs(bytes)));
}

std::string bytes_cell(int64_t bytes) {
  return bytes == 0 ? kNothing : format_bytes(bytes);
}

int64_t bytes_in(const BytesByName& bytes, const std::string& name) {
  auto found = bytes.find(name);
  return found == bytes.end() ? 0 : found->second;
}

std::vector<std::string> difference_row(const SettingDifference& one) {
  std::vector<std::string> row = cut_where_they_differ(
      {printable(yaml_value(one.a), kReadValue), printable(yaml_value(one.b), kReadValue)}, kShownValue);
  row.insert(row.begin(), one.key);
  return row;
}

// The table with its heading, or "" if it would be empty.
std::string table_text(const Table& table, const Style& style) {
  return table.rows.empty() ? "" : "\n" + table.to_text(style);
}

std::string settings_text(const ComparedPlan& a, const ComparedPlan& b, const Style& style) {
  Table table{.header = {"setting", "A", "B"}, .rows = {}, .rules_before = {}};
  for (const SettingDifference& one : different_settings(a.asked, b.asked)) {
    table.rows.push_back(difference_row(one));
  }
  std::string text = table.rows.empty() ? "\n  no setting differs\n" : table_text(table, style);
  Table fitting{.header = {"to fit", "A", "B"}, .rows = {}, .rules_before = {}};
  std::string recomputed;  // too long for cells
  for (const SettingDifference& one : different_fitting(a.fitted, b.fitted)) {
    if (one.key == "memory.recompute") {
      recomputed =
          fmt::format("\n  A  {}\n  B  {}\n", describe(a.fitted.memory.recompute, a.plan.layer_values),
                      describe(b.fitted.memory.recompute, b.plan.layer_values));
    } else {
      fitting.rows.push_back(difference_row(one));
    }
  }
  return text + table_text(fitting, style) + fit_lines(recomputed, style);
}

double trained_percent(const ComparedPlan& side) {
  int64_t all = side.plan.parameters + (side.asked.lora ? side.plan.trainable_parameters : 0);
  return all > 0 ? 100.0 * static_cast<double>(side.plan.trainable_parameters) / static_cast<double>(all) : 0;
}

std::string parameters_text(const ComparedPlan& a, const ComparedPlan& b, const Style& style) {
  bool is_same =
      a.plan.parameters == b.plan.parameters && a.plan.trainable_parameters == b.plan.trainable_parameters;
  if (is_same) {
    return fmt::format("\n  the same {} parameters, {} of them trained\n", format_count(a.plan.parameters),
                       format_count(a.plan.trainable_parameters));
  }
  Table table{.header = {"parameters", "A", "B"}, .rows = {}, .rules_before = {}};
  table.rows.push_back({"model", format_count(a.plan.parameters), format_count(b.plan.parameters)});
  table.rows.push_back(
      {"trained", format_count(a.plan.trainable_parameters), format_count(b.plan.trainable_parameters)});
  table.rows.push_back({"share trained", fmt::format("{:.2f}%", trained_percent(a)),
                        fmt::format("{:.2f}%", trained_percent(b))});
  return table_text(table, style);
}

void add_bytes(Table& table, const std::string& name, int64_t a, int64_t b) {
  if (a != 0 || b != 0) {
    table.rows.push_back({name, bytes_cell(a), bytes_cell(b), signed_bytes(b - a)});
  }
}

const PhaseFigures* phase_of(const PlanFigures& plan, const std::string& name) {
  auto found = std::find_if(plan.phases.begin(), plan.phases.end(),
                            [&](const PhaseFigures& phase) { return phase.name == name; });
  return found == plan.phases.end() ? nullptr : &*found;
}

// Those of A in their order, then what B has besides.
std::vector<std::string> phase_names(const PlanFigures& a, const PlanFigures& b) {
  std::vector<std::string> names;
  for (const PlanFigures* plan : {&a, &b}) {
    for (const PhaseFigures& phase : plan->phases) {
      if (std::find(names.begin(), names.end(), phase.name) == names.end()) {
        names.push_back(phase.name);
      }
    }
  }
  return names;
}

std::string memory_text(const PlanFigures& a, const PlanFigures& b, const Style& style) {
  auto peak_in = [](const PlanFigures& plan, const std::string& phase) {
    const PhaseFigures* found = phase_of(plan, phase);
    return found == nullptr ? 0 : found->peak_bytes + plan.context_bytes;
  };
  std::vector<std::string> phases = phase_names(a, b);
  bool same_phases = std::all_of(phases.begin(), phases.end(), [&](const std::string& phase) {
    return peak_in(a, phase) == peak_in(b, phase);
  });
  if (a.roles == b.roles && same_phases) {
    return "\n  memory: the same to the byte, in every phase\n";
  }
  Table table{.header = {"memory at the peak", "A", "B", "B − A"}, .rows = {}, .rules_before = {}};
  int64_t sum_a = 0;
  int64_t sum_b = 0;
  for (size_t i = 0; i < kRoleCount; ++i) {
    std::string role(name_of(static_cast<Role>(i)));
    add_bytes(table, role, bytes_in(a.roles, role), bytes_in(b.roles, role));
    sum_a += bytes_in(a.roles, role);
    sum_b += bytes_in(b.roles, role);
  }
  add_bytes(table, "placement loss", a.peak_bytes - sum_a, b.peak_bytes - sum_b);
  table.rules_before.push_back(table.rows.size());
  add_bytes(table, "peak", a.peak_bytes, b.peak_bytes);
  table.rules_before.push_back(table.rows.size());
  for (const std::string& phase : phases) {
    add_bytes(table, "peak in " + phase, peak_in(a, phase), peak_in(b, phase));
  }
  return table_text(table, style);
}

std::string time_text(const SpeedEstimate& a, const SpeedEstimate& b, const Style& style) {
  if (!a.known() && !b.known()) {
    return "";
  }
  auto cell = [](const SpeedEstimate& one, std::string text) {
    return one.known() ? std::move(text) : std::string(kNothing);
  };
  Table table{.header = {"expected", "A", "B"}, .rows = {}, .rules_before = {}};
  auto add = [&](const char* name, auto text) {
    table.rows.push_back({name, cell(a, text(a)), cell(b, text(b))});
  };
  add("seconds a step", [](const SpeedEstimate& one) { return fmt::format("{:.2f}", one.seconds); });
  add("tokens a step",
      [](const SpeedEstimate& one) { return format_count(static_cast<int64_t>(one.tokens)); });
  add("tokens a second", [](const SpeedEstimate& one) {
    return one.known() ? format_count(static_cast<int64_t>(one.tokens_per_second())) : "";
  });
  return table_text(table, style);
}

std::string run_text(const ComparedPlan& a, const ComparedPlan& b, const Style& style) {
  if (!a.run && !b.run) {
    return "";
  }
  Table table{.header = {"run", "A", "B"}, .rows = {}, .rules_before = {}};
  auto add = [&](const char* name, auto text) {
    auto cell = [&](const ComparedPlan& side) {
      std::string found = side.run ? text(*side.run) : "";
      return found.empty() ? std::string(kNothing)
                           : cut_to_width(printable(found, kShownValue * 4), kShownValue);
    };
    std::vector<std::string> row = {name, cell(a), cell(b)};
    if (row[1] != kNothing || row[2] != kNothing) {
      table.rows.push_back(std::move(row));
    }
  };
  auto number = [](const std::optional<double>& value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : std::string();
  };
  add("state", [](const RunRecord& run) { return run.state; });
  add("snug", [](const RunRecord& run) { return run.origin.version; });
  add("commit", [](const RunRecord& run) { return run.origin.commit; });
  add("device", [](const RunRecord& run) { return run.origin.device; });
  add("which is", [](const RunRecord& run) { return run.origin.model_of_device; });
  add("driver", [](const RunRecord& run) { return run.origin.driver; });
  add("model's fingerprint",
      [](const RunRecord& run) { return run.origin.identity.model.substr(0, kShownFingerprint); });
  add("data's fingerprint",
      [](const RunRecord& run) { return run.origin.identity.train_data.substr(0, kShownFingerprint); });
  add("evaluation data's",
      [](const RunRecord& run) { return run.origin.identity.eval_data.substr(0, kShownFingerprint); });
  table.rules_before.push_back(table.rows.size());
  add("steps", [](const RunRecord& run) { return format_count(run.figures.steps); });
  add("first loss", [&](const RunRecord& run) { return number(run.figures.first_loss, 4); });
  add("last loss", [&](const RunRecord& run) { return number(run.figures.last_loss, 4); });
  add("evaluation loss", [&](const RunRecord& run) { return number(run.figures.eval_loss, 4); });
  add("tokens a second", [&](const RunRecord& run) {
    std::optional<double> speed = run.figures.tokens_per_second;
    return speed ? format_count(static_cast<int64_t>(*speed)) : std::string();
  });
  return table_text(table, style);
}

std::string pair_text(const ComparedPlan& a, const ComparedPlan& b, const Style& style) {
  return settings_text(a, b, style) + parameters_text(a, b, style) + memory_text(a.plan, b.plan, style) +
         time_text(a.speed, b.speed, style) + run_text(a, b, style);
}

std::string stage_names(const std::string& a, const std::string& b) {
  auto name = [](const std::string& stage) { return stage.empty() ? std::string("the whole") : stage; };
  return a == b ? name(a) : fmt::format("{} (A), {} (B)", name(a), name(b));
}

Json speed_json(const SpeedEstimate& speed) {
  return speed.known() ? Json({{"seconds_per_step", speed.seconds},
                               {"tokens_per_step", speed.tokens},
                               {"tokens_per_second", speed.tokens_per_second()}})
                       : Json();
}

Json number_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json side_json(const ComparedPlan& side) {
  Json phases = Json::array();
  for (const PhaseFigures& phase : side.plan.phases) {
    phases.push_back({{"name", phase.name}, {"peak_bytes", phase.peak_bytes}, {"roles", phase.roles}});
  }
  Json json = {{"fits", side.plan.fits() ? Json(*side.plan.fits()) : Json()},
               {"peak_bytes", side.plan.peak_bytes},
               {"limit_bytes", side.plan.limit_bytes ? Json(*side.plan.limit_bytes) : Json()},
               {"parameters", side.plan.parameters},
               {"trainable_parameters", side.plan.trainable_parameters},
               {"roles", side.plan.roles},
               {"phases", phases},
               {"expected", speed_json(side.speed)}};
  if (side.run) {
    const RunFigures& figures = side.run->figures;
    json["run"] = {{"state", side.run->state},
                   {"origin", origin_to_json(side.run->origin)},
                   {"steps", figures.steps},
                   {"first_loss", number_json(figures.first_loss)},
                   {"last_loss", number_json(figures.last_loss)},
                   {"eval_loss", number_json(figures.eval_loss)},
                   {"tokens_per_second", number_json(figures.tokens_per_second)}};
  }
  return json;
}

Json settings_json(const std::vector<SettingDifference>& settings) {
  Json list = Json::array();
  for (const SettingDifference& one : settings) {
    list.push_back({{"key", one.key}, {"a", one.a}, {"b", one.b}});
  }
  return list;
}

}  // namespace

std::string diff_report(const Compared& a, const Compared& b, const Style& style) {
  std::string text = fmt::format("  {}\n\n  {}  {}\n  {}  {}\n", style.bold(verdict(a, b)), style.dim("A"),
                                 printable(a.path, 400), style.dim("B"), printable(b.path, 400));
  text = fit_lines(text, style);
  size_t pairs = std::min(a.stages.size(), b.stages.size());
  for (size_t i = 0; i < pairs; ++i) {
    const ComparedPlan& one = a.stages[i];
    const ComparedPlan& other = b.stages[i];
    if (!one.asked.stage.name.empty() || !other.asked.stage.name.empty()) {
      text += fmt::format("\n  {} {}\n", style.bold("stage"),
                          stage_names(one.asked.stage.name, other.asked.stage.name));
    }
    text += pair_text(one, other, style);
  }
  const Compared& longer = a.stages.size() > b.stages.size() ? a : b;
  for (size_t i = pairs; i < longer.stages.size(); ++i) {
    text += fmt::format("\n  {} {}: in {} only\n", style.bold("stage"), longer.stages[i].asked.stage.name,
                        &longer == &a ? "A" : "B");
  }
  return text;
}

Json diff_json(const Compared& a, const Compared& b) {
  Json stages = Json::array();
  for (size_t i = 0; i < std::max(a.stages.size(), b.stages.size()); ++i) {
    Json one;
    bool both = i < a.stages.size() && i < b.stages.size();
    for (const auto& [name, side] : {std::pair("a", &a), std::pair("b", &b)}) {
      one[name] = i < side->stages.size() ? side_json(side->stages[i]) : Json();
    }
    if (both) {
      one["settings"] = settings_json(different_settings(a.stages[i].asked, b.stages[i].asked));
      one["to_fit"] = settings_json(different_fitting(a.stages[i].fitted, b.stages[i].fitted));
    }
    stages.push_back(std::move(one));
  }
  return {
      {"same", is_same(a, b)}, {"verdict", verdict(a, b)}, {"a", a.path}, {"b", b.path}, {"stages", stages}};
}

}  // namespace snug
