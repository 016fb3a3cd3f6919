// Lines of the log.
#include "report/run_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "base/bytes.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "report/step_text.h"
#include "report/terminal.h"
#include "train/run_files.h"

namespace snug {

RunLog::RunLog(std::string preface, int64_t logging_steps)
    : preface_(std::move(preface)), logging_steps_(std::max<int64_t>(logging_steps, 1)) {}

void RunLog::on_begin(const RunBeginning& beginning) {
  std::filesystem::path path = beginning.folder / kLogFile;
  bool has_earlier = beginning.goes_on && std::filesystem::exists(path);
  file_.emplace(path, has_earlier ? read_text_file(path) : "");
  write(has_earlier ? "the run goes on" : "the run begins");
  write(preface_);
  write(fmt::format("memory: {} planned, {} allocated", format_count(beginning.planned_bytes),
                    format_count(beginning.allocated_bytes)));
}

void RunLog::on_step(const StepMetrics& metrics) {
  bool is_logged =
      metrics.step == 1 || metrics.step == metrics.total_steps || metrics.step % logging_steps_ == 0;
  if (!is_logged) {
    return;
  }
  std::string card = card_text(card_);
  write(fmt::format(
      "step {}/{}  loss {:.4f}  norm {:.2f}  lr {:.2e}  {} tok/s  data wait {:.1f}%  memory {}{}",
      metrics.step, metrics.total_steps, metrics.loss, metrics.gradient_norm, metrics.learning_rate,
      format_count(
          static_cast<int64_t>(static_cast<double>(metrics.tokens) / std::max(metrics.seconds, 1e-9))),
      100 * metrics.data_seconds / std::max(metrics.seconds, 1e-9), format_bytes(metrics.used_bytes),
      card.empty() ? "" : "  " + card));
}

void RunLog::on_evaluation(const EvaluationMetrics& metrics) {
  write(evaluation_text(metrics));
}

void RunLog::on_sample(const Sample& sample) {
  constexpr size_t kMostBytes = 2000;
  write(sample_text(sample, kMostBytes));
}

void RunLog::on_trouble(const Trouble& trouble) {
  write(fmt::format("trouble ({}): {}", trouble.name, trouble.text()));
}

void RunLog::on_end(const TrainSummary& summary) {
  std::string_view how = summary.interrupted                ? "stopped"
                         : !summary.stopped_because.empty() ? "ended by trouble"
                         : summary.ended_early              ? "done, for evaluations got no better"
                                                            : "done";
  write(fmt::format("{}: {} of {} steps, {} updates, {} tokens in {}, loss {:.4f} to {:.4f}", how,
                    summary.steps, summary.total_steps, summary.updates, format_count(summary.tokens),
                    format_duration(summary.seconds), summary.first_loss, summary.last_loss));
  if (!summary.stopped_because.empty()) {
    write("because " + summary.stopped_because);
  }
  write(fmt::format("memory: {} planned, {} allocated, {} used", format_count(summary.planned_bytes),
                    format_count(summary.allocated_bytes), format_count(summary.peak_used_bytes)));
  if (!summary.checkpoint.empty()) {
    write("checkpoint: " + summary.checkpoint);
  }
}

// A log that cannot be written is no reason to disturb a run: what it would say stands elsewhere too.
void RunLog::write(std::string_view text) {
  if (!file_) {
    return;
  }
  auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::string time = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
  std::istringstream lines{std::string(text)};
  std::string record;
  for (std::string line; std::getline(lines, line);) {
    record += line.empty() ? "" : fmt::format("{}  {}\n", time, printable_lines(line));
  }
  file_->append(record);
}

}  // namespace snug
