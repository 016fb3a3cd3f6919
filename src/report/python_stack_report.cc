// The table of other stacks.
#include "report/python_stack_report.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "report/layout.h"

namespace snug {
std::string python_stacks_report(const std::vector<PythonStackUse>& uses, int64_t planned_bytes,
                                 const std::optional<int64_t>& limit_bytes, const Style& style) {
  Table table;
  table.header = {"under transformers", "weights", "states", "gradients",
                  "activations",        "loss",    "other",  "peak"};
  if (limit_bytes) {
    table.header.push_back("");
  }
  auto add = [&](std::vector<std::string> row, int64_t peak) {
    if (limit_bytes) {
      row.push_back(peak <= *limit_bytes ? "fits" : "does not fit");
    }
    table.rows.push_back(std::move(row));
  };
  auto cell = [](int64_t bytes) { return bytes == 0 ? std::string("·") : format_bytes(bytes); };
  for (const PythonStackUse& use : uses) {
    add({use.stack.name(), cell(use.weights), cell(use.states), cell(use.gradients), cell(use.activations),
         cell(use.loss), cell(use.overhead), format_bytes(use.peak())},
        use.peak());
  }
  table.rules_before = {table.rows.size()};
  add({"snug, this plan", "", "", "", "", "", "", format_bytes(planned_bytes)}, planned_bytes);
  std::string basis =
      "  estimated at the micro-batch as written, full length; within 7% of the driver's count on 15 runs of "
      "an H200";
  return table.to_text(style) + fit_lines(style.dim(basis) + "\n", style);
}

Json python_stacks_json(const std::vector<PythonStackUse>& uses) {
  Json rows = Json::array();
  for (const PythonStackUse& use : uses) {
    rows.push_back({{"name", use.stack.name()},
                    {"gradient_checkpointing", use.stack.checkpointing},
                    {"liger", use.stack.liger},
                    {"fp32_weights", use.stack.fp32_weights},
                    {"weights_bytes", use.weights},
                    {"states_bytes", use.states},
                    {"gradients_bytes", use.gradients},
                    {"activations_bytes", use.activations},
                    {"loss_bytes", use.loss},
                    {"other_bytes", use.overhead},
                    {"peak_bytes", use.peak()}});
  }
  return rows;
}

}  // namespace snug
