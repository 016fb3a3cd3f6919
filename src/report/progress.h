// The run as it goes: one line that is rewritten on a terminal, a line per logged step elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/speed.h"
#include "report/live_line.h"
#include "report/loss_curve.h"
#include "report/recent_speed.h"
#include "report/terminal.h"
#include "report/work_line.h"
#include "train/run_events.h"

namespace snug {

class TrainProgress : public RunListener {
 public:
  // `quiet` prints nothing but warnings, on the error stream (for --json).
  TrainProgress(int64_t logging_steps, bool quiet, const SpeedEstimate& expected = {});

  void on_begin(const RunBeginning& beginning) override { beginning_ = beginning; }
  void on_card(const CardHealth& health) override { card_ = health; }
  void on_stage(const std::string& text) override;
  void on_progress(const WorkProgress& progress) override;
  void on_step(const StepMetrics& metrics) override;
  void on_evaluation(const EvaluationMetrics& metrics) override;
  void on_sample(const Sample& sample) override;
  void on_warning(const std::string& text) override;

  // Loss curve and totals, once the run is over; the speed beside what was expected, if that is known.
  std::string finished(const TrainSummary& summary, const std::string& output_dir) const;

 private:
  std::vector<LinePart> step_parts(const StepMetrics& metrics, size_t columns) const;
  // What is worth a glance and not a line: curve, speed against the ceiling, memory, waiting, the card.
  void add_live_parts(const StepMetrics& metrics, std::vector<LinePart>& parts) const;

  int64_t logging_steps_;
  bool quiet_;
  Style style_;
  LiveLine line_;
  WorkLine work_;
  double seconds_ = 0;  // of the steps that were seen, and their tokens
  int64_t tokens_ = 0;
  RecentSpeed speed_;
  double data_seconds_ = 0;
  SpeedEstimate expected_;
  RunBeginning beginning_;
  CardHealth card_ = {};
  std::vector<CurvePoint> curve_;
  CurvePoint last_ = {};
};

}  // namespace snug
