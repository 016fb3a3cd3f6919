// run.log: what a run says, a line each with its time, for those who follow it with tail and grep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/appended_file.h"
#include "train/run_events.h"

namespace snug {

class RunLog : public RunListener {
 public:
  // `preface` comes first: what runs, on what, by which plan. Lines of a run that goes on stand below those
  // of its earlier parts.
  RunLog(std::string preface, int64_t logging_steps);

  void on_begin(const RunBeginning& beginning) override;
  void on_stage(const std::string& text) override { write(text); }
  void on_step(const StepMetrics& metrics) override;
  void on_evaluation(const EvaluationMetrics& metrics) override;
  void on_sample(const Sample& sample) override;
  void on_card(const CardHealth& health) override { card_ = health; }
  void on_warning(const std::string& text) override { write("warning: " + text); }
  void on_trouble(const Trouble& trouble) override;
  void on_end(const TrainSummary& summary) override;
  void on_failure(const std::string& text) override { write("failed: " + text); }

 private:
  // Each line of the text behind the time.
  void write(std::string_view text);

  std::string preface_;
  int64_t logging_steps_;
  std::optional<AppendedFile> file_;  // since the run began
  CardHealth card_ = {};
};

}  // namespace snug
