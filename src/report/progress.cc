// Progress on the terminal.
#include "report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/bytes.h"
#include "io/printable.h"
#include "report/console.h"

namespace snug {
namespace {

constexpr size_t kCurvePoints = 2000;

}  // namespace

TrainProgress::TrainProgress(int64_t logging_steps, bool quiet, std::function<bool()> should_stop)
    : logging_steps_(std::max<int64_t>(logging_steps, 1)),
      quiet_(quiet),
      should_stop_(std::move(should_stop)),
      style_(Style::for_stdout()) {}

void TrainProgress::clear_line() {
  if (line_shown_) {
    say("\r\x1b[K");
    line_shown_ = false;
  }
}

void TrainProgress::on_stage(const std::string& text) {
  if (!quiet_) {
    clear_line();
    say(fmt::format("  {}\n", style_.dim(printable_lines(text))));
  }
}

void TrainProgress::on_step(const StepMetrics& metrics) {
  seconds_ += metrics.seconds;
  double speed = static_cast<double>(metrics.tokens) / std::max(metrics.seconds, 1e-9);
  bool first = metrics.step == 1;
  smoothed_loss_ = first ? metrics.loss : 0.9 * smoothed_loss_ + 0.1 * metrics.loss;
  smoothed_speed_ = first ? speed : 0.9 * smoothed_speed_ + 0.1 * speed;
  if (curve_.size() < kCurvePoints || metrics.step % logging_steps_ == 0) {
    curve_.push_back({static_cast<double>(metrics.step), smoothed_loss_});
  }
  if (quiet_) {
    return;
  }
  bool due = first || metrics.step == metrics.total_steps || metrics.step % logging_steps_ == 0;
  if (!style_.enabled() && !due) {
    return;
  }
  double left =
      seconds_ / static_cast<double>(metrics.step) * static_cast<double>(metrics.total_steps - metrics.step);
  std::string line =
      fmt::format("  {} {}/{}  loss {:.4f}  norm {:.2f}  lr {:.2e}  {} tok/s  {} left",
                  style_.accent(progress_bar(metrics.step, metrics.total_steps)), metrics.step,
                  metrics.total_steps, metrics.loss, metrics.gradient_norm, metrics.learning_rate,
                  format_count(static_cast<int64_t>(smoothed_speed_)), format_duration(left));
  if (style_.enabled()) {
    say("\r\x1b[K" + line);
    line_shown_ = true;
  } else {
    say(line + "\n");
  }
}

void TrainProgress::on_warning(const std::string& text) {
  clear_line();
  say(fmt::format("  {} {}\n", Style::for_stderr().bad("warning:"), printable_lines(text)), stderr);
}

void TrainProgress::on_evaluation(const EvaluationMetrics& metrics) {
  if (quiet_) {
    return;
  }
  clear_line();
  say(fmt::format("  {} step {}: loss {:.4f} over {} targets\n", style_.bold("evaluation"), metrics.step,
                  metrics.loss, format_count(metrics.targets)));
}

std::string TrainProgress::finished(const TrainSummary& summary, const SpeedEstimate& expected,
                                    const std::string& output_dir) const {
  std::string text = "\n" + loss_curve(curve_, 60, 8, style_) + "\n";
  text +=
      fmt::format("  {} {} of {} steps, {} tokens in {} ({} tok/s)\n",
                  summary.interrupted ? style_.bad("stopped early:") : style_.good("done:"), summary.steps,
                  summary.total_steps, format_count(summary.tokens), format_duration(summary.seconds),
                  format_count(static_cast<int64_t>(static_cast<double>(summary.tokens) /
                                                    std::max(summary.seconds, 1e-9))));
  if (expected.known() && summary.steps > 0) {
    text += fmt::format(
        "  speed  {} tok/s towards the end, {:.0f}% of the ceiling; {} were expected of full batches\n",
        format_count(static_cast<int64_t>(smoothed_speed_)),
        100 * smoothed_speed_ / expected.ceiling_tokens_per_second(),
        format_count(static_cast<int64_t>(expected.tokens_per_second())));
  }
  if (summary.skipped_updates() > 0) {
    text += fmt::format("  {} of {} updates were skipped, as their gradients were not finite\n",
                        format_count(summary.skipped_updates()), format_count(summary.steps));
  }
  text += fmt::format("  loss   {:.4f} → {:.4f}", summary.first_loss, summary.last_loss);
  if (!summary.evaluations.empty()) {
    text += fmt::format(", evaluation {:.4f}", summary.evaluations.back().loss);
  }
  text += fmt::format("\n  memory {} planned, {} allocated, {} used\n", format_count(summary.planned_bytes),
                      format_count(summary.allocated_bytes), format_count(summary.peak_used_bytes));
  if (summary.updates == 0) {
    return text + "  nothing was learned yet, so nothing is saved\n";
  }
  return text + fmt::format("  saved  {}\n", summary.interrupted ? summary.checkpoint : output_dir);
}

}  // namespace snug
