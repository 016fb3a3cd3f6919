// Progress on the terminal.
#include "report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/bytes.h"
#include "io/printable.h"
#include "report/console.h"
#include "report/layout.h"
#include "report/step_text.h"

namespace snug {
namespace {

constexpr size_t kCurvePoints = 2000;
constexpr size_t kCurveColumns = 60;
constexpr size_t kCurveMargin = 12;
constexpr int kCurveRows = 8;

constexpr size_t kColumnsForAWideBar = 100;
constexpr int kNarrowBar = 10;
constexpr size_t kSparkCharacters = 12;
constexpr int64_t kSamplesShown = 3;
constexpr size_t kSampleBytes = 100;
constexpr double kWorthTelling = 0.01;  // of the time

}  // namespace

TrainProgress::TrainProgress(int64_t logging_steps, bool quiet, const SpeedEstimate& expected)
    : logging_steps_(std::max<int64_t>(logging_steps, 1)),
      quiet_(quiet),
      style_(Style::for_stdout()),
      line_(stdout),
      work_(line_, stdout),
      expected_(expected) {}

void TrainProgress::on_stage(const std::string& text) {
  if (!quiet_) {
    line_.clear();
    say(fit_lines(fmt::format("  {}\n", style_.dim(printable_lines(text))), Style::for_stdout()));
  }
}

void TrainProgress::on_progress(const WorkProgress& progress) {
  if (quiet_) {
    return;
  }
  work_.show(
      {.what = std::string(progress.what), .done = progress.done, .total = progress.total, .detail = ""});
  if (progress.done == progress.total) {
    work_.finish();
    line_.clear();
  }
}

void TrainProgress::add_live_parts(const StepMetrics& metrics, std::vector<LinePart>& parts) const {
  if (std::string spark = sparkline(curve_, kSparkCharacters); !spark.empty()) {
    parts.push_back({style_.accent(spark), 5});
  }
  if (expected_.known()) {
    parts.push_back(
        {fmt::format("{:.0f}% of ceiling", 100 * speed_.median() / expected_.ceiling_tokens_per_second()),
         6});
  }
  if (metrics.used_bytes > 0) {
    parts.push_back({fmt::format("mem {} of {}", format_bytes(metrics.used_bytes),
                                 format_bytes(beginning_.planned_bytes)),
                     7});
  }
  if (double share = data_seconds_ / std::max(seconds_, 1e-9); share >= kWorthTelling) {
    parts.push_back({fmt::format("data wait {:.0f}%", 100 * share), 6});
  }
  std::string card = card_text(card_);
  if (!card.empty()) {
    parts.push_back({card, card_.is_slowed_by_heat || card_.is_slowed_by_power_brake ? 2 : 10});
  }
}

std::vector<LinePart> TrainProgress::step_parts(const StepMetrics& metrics, size_t columns) const {
  double left = speed_.seconds_for(metrics.total_steps - metrics.step);
  int bar = columns < kColumnsForAWideBar ? kNarrowBar : kBarCharacters;
  std::vector<LinePart> parts = {
      {style_.accent(progress_bar(metrics.step, metrics.total_steps, bar)), 4},
      {fmt::format("{}/{}", metrics.step, metrics.total_steps), 0},
      {fmt::format("loss {:.4f}", metrics.loss), 1},
      {fmt::format("norm {:.2f}", metrics.gradient_norm), 8},
      {fmt::format("lr {:.2e}", metrics.learning_rate), 9},
      {fmt::format("{} tok/s", format_count(static_cast<int64_t>(speed_.median()))), 3}};
  if (line_.enabled()) {  // lines that stay are short; run.log has the rest
    add_live_parts(metrics, parts);
  }
  parts.push_back({format_duration(left) + " left", 2});
  return parts;
}

void TrainProgress::on_step(const StepMetrics& metrics) {
  seconds_ += metrics.seconds;
  tokens_ += metrics.tokens;
  data_seconds_ += metrics.data_seconds;
  speed_.add(metrics.tokens, metrics.seconds);
  last_ = {static_cast<double>(metrics.step), metrics.loss};
  bool is_logged =
      metrics.step == 1 || metrics.step == metrics.total_steps || metrics.step % logging_steps_ == 0;
  if (curve_.size() < kCurvePoints || is_logged) {
    curve_.push_back(last_);
  }
  if (quiet_) {
    return;
  }
  if (line_.enabled()) {
    if (line_.is_due()) {
      line_.show(step_parts(metrics, line_.columns()));
    }
  } else if (is_logged) {
    size_t columns = columns_of(stdout);
    say(join_parts(step_parts(metrics, columns), columns) + "\n");
  }
}

void TrainProgress::on_warning(const std::string& text) {
  line_.clear();
  Style style = Style::for_stderr();
  say(fit_lines(fmt::format("  {} {}\n", style.bad("warning:"), printable_lines(text)), style), stderr);
}

void TrainProgress::on_evaluation(const EvaluationMetrics& metrics) {
  if (quiet_) {
    return;
  }
  line_.clear();
  constexpr std::string_view kWord = "evaluation";
  std::string text = fmt::format("  {}{}", style_.bold(kWord), evaluation_text(metrics).substr(kWord.size()));
  say(fit_lines(text + "\n", Style::for_stdout()));
}

void TrainProgress::on_sample(const Sample& sample) {
  if (!quiet_ && sample.number <= kSamplesShown) {
    say(fit_lines(fmt::format("  {}\n", sample_text(sample, kSampleBytes)), Style::for_stdout()));
  }
}

std::string TrainProgress::finished(const TrainSummary& summary, const std::string& output_dir) const {
  Style style = Style::for_stdout();
  std::vector<CurvePoint> curve = curve_;
  if (!curve.empty() && curve.back().step != last_.step) {
    curve.push_back(last_);
  }
  auto columns = static_cast<int>(std::min(kCurveColumns, style.columns() - kCurveMargin));
  // A run that went on has tokens and seconds of before: its speed is that of the steps that were seen.
  std::string speed =
      seconds_ > 0 ? fmt::format(" ({} tok/s while training)",
                                 format_count(static_cast<int64_t>(static_cast<double>(tokens_) / seconds_)))
                   : "";
  std::string text = fmt::format("  {} {} of {} steps, {} tokens in {}{}\n",
                                 summary.interrupted   ? style.bad("stopped early:")
                                 : summary.ended_early ? style.good("done, for evaluations got no better:")
                                                       : style.good("done:"),
                                 summary.steps, summary.total_steps, format_count(summary.tokens),
                                 format_duration(summary.seconds), speed);
  if (expected_.known() && seconds_ > 0) {
    text += fmt::format(
        "  speed  {} tok/s towards the end, {:.0f}% of the ceiling; {} were expected of full batches\n",
        format_count(static_cast<int64_t>(speed_.median())),
        100 * speed_.median() / expected_.ceiling_tokens_per_second(),
        format_count(static_cast<int64_t>(expected_.tokens_per_second())));
  }
  if (summary.skipped_updates() > 0) {
    text += fmt::format("  {} of {} updates were skipped, as their gradients were not finite\n",
                        format_count(summary.skipped_updates()), format_count(summary.steps));
  }
  if (summary.steps > 0) {
    text += fmt::format("  loss   {:.4f} → {:.4f}", summary.first_loss, summary.last_loss);
    if (!summary.evaluations.empty()) {
      const EvaluationMetrics& last = summary.evaluations.back();
      text += fmt::format(", evaluation {:.4f}{}", last.loss, right_text(last));
    }
    text += "\n";
  }
  text += fmt::format("  memory {} planned, {} allocated, {} used\n", format_count(summary.planned_bytes),
                      format_count(summary.allocated_bytes), format_count(summary.peak_used_bytes));
  std::string place = summary.interrupted ? summary.checkpoint : output_dir;
  text += summary.updates > 0 ? fmt::format("  saved  {}\n", place)
                              : "  nothing was learned yet, so nothing is saved\n";
  return "\n" + loss_curve(smoothed(curve), columns, kCurveRows, style) + "\n" + fit_lines(text, style);
}

}  // namespace snug
