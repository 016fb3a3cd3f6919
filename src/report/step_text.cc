// Words for them.
#include "report/step_text.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "io/printable.h"

namespace snug {
namespace {

// What was right, of a set or of all of them.
template <typename Metrics>
std::string shares(const Metrics& metrics) {
  std::string text = fmt::format(", {:.1f}% right", 100 * metrics.token_accuracy());
  if (metrics.answers > 0) {
    text += fmt::format(", {} of {} answers exact", format_count(metrics.exact_answers),
                        format_count(metrics.answers));
  }
  return text;
}

}  // namespace

std::string right_text(const EvaluationMetrics& metrics) {
  return shares(metrics);
}

std::string evaluation_text(const EvaluationMetrics& metrics) {
  std::string text = fmt::format("evaluation step {}: loss {:.4f} over {} targets{}", metrics.step,
                                 metrics.loss, format_count(metrics.targets), shares(metrics));
  for (const SetMetrics& set : metrics.sets) {
    text += fmt::format("; {} {:.4f}{}", printable(set.name), set.loss, shares(set));
  }
  return text;
}

std::string sample_text(const Sample& sample, size_t max_bytes) {
  std::string text = fmt::format("sample {}: {} → {}", sample.number, in_quotes(sample.prompt, max_bytes),
                                 in_quotes(sample.text, max_bytes));
  if (!sample.reference.empty()) {
    text += fmt::format(", wished for: {}", in_quotes(sample.reference, max_bytes));
  }
  return text;
}

std::string card_text(const CardHealth& card) {
  std::string text = card.celsius ? fmt::format("{} °C", *card.celsius) : "";
  auto add = [&](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
  if (card.watts) {
    add(fmt::format("{:.0f} W", *card.watts));
  }
  if (card.is_slowed_by_heat || card.is_slowed_by_power_brake) {
    add(card.is_slowed_by_heat ? "throttled by heat" : "throttled by its power supply");
  }
  return text;
}

}  // namespace snug
