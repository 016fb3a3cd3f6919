// Watches over a run: numbers that are not finite, updates that are skipped, a loss that explodes or stays at
// nothing, adapters that learn nothing, evaluations that only rise, a disk or a card that holds it up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"
#include "train/run_events.h"

namespace snug {

class RunWatch : public RunListener {
 public:
  struct Run {
    int64_t vocabulary = 0;
    bool scales_loss = false;  // fp16, where a few skipped updates are how the scale of the loss is found
    OnTrouble on_trouble = OnTrouble::stop;
    double learning_rate = 0;   // of the recipe
    double stall_seconds = 60;  // that nothing may take which is waited for
  };
  // Troubles are told to `events`, each kind once, until what was fatal is the reason to stop.
  RunWatch(const Run& run, const RunEvents& events);

  // What it has seen so far, for a run that is taken up again.
  const WatchMemory& memory() const { return memory_; }
  void recall(const WatchMemory& memory) { memory_ = memory; }

  void on_step(const StepMetrics& metrics) override;
  void on_evaluation(const EvaluationMetrics& metrics) override;
  void on_card(const CardHealth& health) override;
  // When the adapters must have changed: modules whose adapters have not, of so many.
  bool is_time_for_adapters() const { return !memory_.adapters_seen && memory_.updates >= kUpdates; }
  void see_adapters(const std::vector<std::string>& unchanged, int64_t all);
  // Since the next batch is waited for, or since the disk last took something of a checkpoint.
  void see_data_wait(double seconds);
  void see_disk_wait(double seconds);

  // Why the run must end.
  const std::optional<Trouble>& reason_to_stop() const { return reason_to_stop_; }
  bool loss_is_finite() const { return loss_is_finite_; }
  // Whether something is under way for which the run may be ended: what is saved now may not be good.
  bool is_suspicious() const;

 private:
  static constexpr int64_t kUpdates = 20;

  void raise(const Trouble& trouble);
  bool was_told(std::string_view name) const;
  void look_at_update(const StepMetrics& step);
  void look_at_scale(const StepMetrics& step);
  void look_at_size(const StepMetrics& step);
  void look_at_zero(const StepMetrics& step);
  bool is_high() const;
  std::string against_divergence() const;

  Run run_;
  const RunEvents& events_;
  double guessing_loss_;  // of a model that thinks all tokens equally likely
  std::optional<Trouble> reason_to_stop_;
  bool loss_is_finite_ = true;
  int64_t hot_in_a_row_ = 0;
  WatchMemory memory_;
};

}  // namespace snug
