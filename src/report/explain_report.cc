// One paragraph a finding, and the run that fits.
#include "report/explain_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"
#include "io/printable.h"
#include "report/layout.h"
#include "report/python_stack_report.h"

namespace snug {
namespace {

std::string fitting_text(const FittingRun& fitting, const Style& style) {
  std::string text = fmt::format("\n  {}\n", style.good("What fits"));
  std::string peak = fmt::format("{} of {}, every byte counted before it starts",
                                 format_bytes(fitting.peak_bytes), format_bytes(fitting.limit_bytes));
  if (!fitting.recipe.empty()) {
    return text + fmt::format("    snug trains it in {}:\n\n{}", peak, fitting.recipe);
  }
  if (fitting.settings.empty()) {
    return text + fmt::format("    snug trains the recipe as it is in {}.\n", peak);
  }
  text += fmt::format("    snug trains the recipe in {}, with --set {}.\n", peak,
                      fmt::join(fitting.settings, " --set "));
  if (!fitting.changes.empty()) {
    text += fmt::format("    That changes: {}.\n", fmt::join(fitting.changes, "; "));
  }
  return text;
}

}  // namespace

std::string explain_report(const Story& story, const Style& style) {
  std::string text;
  for (const LogFinding& finding : story.findings) {
    text += fmt::format("{}  {} {}\n", text.empty() ? "" : "\n", style.bold(printable(finding.title, 400)),
                        style.dim(fmt::format("(line {})", finding.line)));
    for (const std::string& sentence : finding.sentences) {
      text += fmt::format("    {}\n", printable(sentence, 1000));
    }
  }
  if (!story.fitting) {
    return fit_lines(text, style);
  }
  return fit_lines(text + fitting_text(*story.fitting, style), style) + "\n" +
         python_stacks_report(story.fitting->elsewhere, story.fitting->peak_bytes, story.fitting->limit_bytes,
                              style);
}

Json explain_json(const Story& story) {
  Json findings = Json::array();
  for (const LogFinding& finding : story.findings) {
    findings.push_back({{"line", finding.line}, {"title", finding.title}, {"sentences", finding.sentences}});
  }
  Json report = {{"findings", findings}, {"model", story.model.empty() ? Json(nullptr) : Json(story.model)}};
  if (story.fitting) {
    report["fits"] = {{"recipe", story.fitting->recipe},
                      {"settings", story.fitting->settings},
                      {"changes", story.fitting->changes},
                      {"peak_bytes", story.fitting->peak_bytes},
                      {"limit_bytes", story.fitting->limit_bytes}};
    report["as_transformers"] = python_stacks_json(story.fitting->elsewhere);
  }
  return report;
}

}  // namespace snug
