// The run as it goes: one line that is rewritten on a terminal, a line per logged step elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/speed.h"
#include "report/loss_curve.h"
#include "report/terminal.h"
#include "train/trainer.h"

namespace snug {

class TrainProgress : public TrainObserver {
 public:
  // `quiet` prints nothing but warnings, on the error stream (for --json).
  TrainProgress(int64_t logging_steps, bool quiet, std::function<bool()> should_stop);

  void on_stage(const std::string& text) override;
  void on_step(const StepMetrics& metrics) override;
  void on_evaluation(const EvaluationMetrics& metrics) override;
  void on_warning(const std::string& text) override;
  bool should_stop() override { return should_stop_(); }

  // Loss curve and totals, once the run is over; the speed beside what was expected, if that is known.
  std::string finished(const TrainSummary& summary, const SpeedEstimate& expected,
                       const std::string& output_dir) const;

 private:
  void clear_line();

  int64_t logging_steps_;
  bool quiet_;
  std::function<bool()> should_stop_;
  Style style_;
  bool line_shown_ = false;
  double seconds_ = 0;
  double smoothed_loss_ = 0;
  double smoothed_speed_ = 0;
  std::vector<CurvePoint> curve_;
};

}  // namespace snug
