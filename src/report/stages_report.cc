// Tables with a column a stage.
#include "report/stages_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "fit/recompute_search.h"
#include "recipe/effective_batch.h"
#include "report/layout.h"
#include "report/plan_report.h"

namespace snug {
namespace {

std::string cell(int64_t bytes) {
  return bytes == 0 ? "·" : format_bytes(bytes);
}

std::string cell(const std::optional<double>& loss) {
  return loss ? fmt::format("{:.4f}", *loss) : "·";
}

std::string_view words_for(StageStart start) {
  switch (start) {
    case StageStart::fresh:
      return "";
    case StageStart::go_on:
      return ", continues";
    case StageStart::stack:
      return ", on top of the adapters before";
    case StageStart::merge_first:
      return ", the adapters before merged into the weights";
  }
  return "";
}

std::string stage_line(const Plan& plan, const Recipe& stage, size_t name_width, const Style& style) {
  const TrainingSection& training = stage.training;
  std::string method = stage.lora
                           ? fmt::format("LoRA r={}, alpha={:g}", stage.lora->r, stage.lora->lora_alpha)
                           : "all weights";
  return fmt::format("  {}  {}: {} parameters; {} of up to {} tokens a step, {} at once, {}; lr {:g}{}\n",
                     style.dim(pad_right(stage.stage.name, name_width)), method,
                     format_count(plan.trainable_parameters), effective_batch(training),
                     stage.data.max_length, format_count(micro_batch_tokens(stage)),
                     describe_recompute(stage, plan), training.learning_rate, words_for(stage.stage.start));
}

const Plan& highest(const std::vector<Plan>& plans) {
  return *std::max_element(plans.begin(), plans.end(),
                           [](const Plan& a, const Plan& b) { return a.peak_bytes() < b.peak_bytes(); });
}

Table memory_table(const std::vector<Plan>& plans, const std::vector<Recipe>& stages) {
  Table table;
  table.header = {"memory on " + plans.front().backend};
  for (const Recipe& stage : stages) {
    table.header.push_back(stage.stage.name);
  }
  auto add_row = [&](std::string_view name, auto text_of) {
    std::vector<std::string> row = {std::string(name)};
    for (const Plan& plan : plans) {
      row.push_back(text_of(plan));
    }
    bool is_empty =
        std::all_of(row.begin() + 1, row.end(), [](const std::string& text) { return text == "·"; });
    if (!is_empty) {
      table.rows.push_back(std::move(row));
    }
  };
  for (size_t role = 0; role < kRoleCount; ++role) {
    add_row(name_of(static_cast<Role>(role)), [&](const Plan& plan) {
      bool is_context = static_cast<Role>(role) == Role::driver_context;
      return cell(plan.largest_phase().role_bytes[role] + (is_context ? plan.context_bytes : 0));
    });
  }
  add_row("placement loss", [](const Plan& plan) { return cell(plan.largest_phase().placement_loss_bytes); });
  table.rules_before = {table.rows.size()};
  add_row("peak", [](const Plan& plan) {
    return cell(plan.largest_phase().device().peak_bytes + plan.context_bytes);
  });
  add_row("in", [](const Plan& plan) { return plan.largest_phase().name(); });
  table.rules_before.push_back(table.rows.size());
  add_row("checkpoints, on the disk",
          [](const Plan& plan) { return cell(plan.saving ? plan.saving->disk_bytes() : 0); });
  add_row("copy of the state, on the host",
          [](const Plan& plan) { return cell(plan.arena_bytes[static_cast<size_t>(Home::host)]); });
  return table;
}

}  // namespace

std::string stages_plan_report(const std::vector<Plan>& plans, const std::vector<Recipe>& stages,
                               const std::string& device, const Style& style) {
  std::string text = fmt::format("  {}  {}\n  {}  {}, {} parameters; {} stages, one arena for all\n",
                                 style.dim("device"), device, style.dim("model "), stages.front().model.path,
                                 format_count(plans.front().parameters), stages.size());
  size_t name_width = 6;  // as "device"
  for (const Recipe& stage : stages) {
    name_width = std::max(name_width, stage.stage.name.size());
  }
  for (size_t i = 0; i < plans.size(); ++i) {
    text += stage_line(plans[i], stages[i], name_width, style);
  }
  const Plan& peak = highest(plans);
  const std::string& name = stages[static_cast<size_t>(&peak - plans.data())].stage.name;
  std::string where = peak.largest_phase().peak_op.empty() ? "" : " at " + peak.largest_phase().peak_op;
  text += "\n" + memory_table(plans, stages).to_text(style) + "\n" +
          fmt::format("  {} {} ({} bytes), in stage {}, in {}{}\n", style.bold("peak"),
                      format_bytes(peak.peak_bytes()), format_count(peak.peak_bytes()), name,
                      peak.largest_phase().name(), where) +
          limit_line(peak, style);
  return fit_lines(text, style);
}

std::string forgetting_report(const Forgetting& forgetting, const Style& style) {
  if (forgetting.sets.empty()) {
    return "";
  }
  Table table;
  table.header = {"loss on", "before"};
  for (const std::string& stage : forgetting.stages) {
    table.header.push_back("after " + stage);
  }
  table.header.insert(table.header.end(), {"learned", "forgotten"});
  for (const SetHistory& one : forgetting.sets) {
    std::vector<std::string> row = {one.set, cell(one.before)};
    for (const std::optional<double>& loss : one.after) {
      row.push_back(cell(loss));
    }
    row.insert(row.end(), {cell(one.learned()), cell(one.forgotten())});
    table.rows.push_back(std::move(row));
  }
  return "\n" + table.to_text(style);
}

std::string stage_heading(const Recipe& stage, size_t index, size_t count, const Style& style) {
  return fit_lines(fmt::format("\n  {} {} of {}: {}{}\n", style.bold("stage"), index + 1, count,
                               style.bold(stage.stage.name), words_for(stage.stage.start)),
                   style);
}

}  // namespace snug
