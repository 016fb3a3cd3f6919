// How long a run is expected to take: its steps, and what each takes by the device's rates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/device.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

// As much as is known of a run's data.
struct RunLength {
  std::optional<int64_t> rows = std::nullopt;             // an epoch: the data's, or as many as somebody says
  std::optional<int64_t> steps_per_epoch = std::nullopt;  // of the first, where epochs are packed
  std::optional<int64_t> steps = std::nullopt;            // of the run
  std::optional<double> evaluated_tokens = std::nullopt;  // of one evaluation, sources included
  double evaluated_learned = 1;  // the share of them, without sources, that have a target
};

// Without the data: `rows` an epoch, each a sequence or, with packing, a pack of its own.
RunLength length_without_data(const TrainingSection& training, std::optional<int64_t> rows);

struct RunForecast {
  RunLength length;
  double epochs = 0;
  int64_t sequences = 0;     // a step, or packs
  std::string product;       // of which the recipe says that it is that many: "8 x 16"; "" if it does not
  double micro_batches = 0;  // a step, as planned
  double tokens = 0;         // a step, sources included
  int64_t evaluations = 0;   // where the steps are known
  // Not known if the device's rates are not, or where the plan has no room and nothing is run by it.
  std::optional<double> step_seconds = std::nullopt;
  std::optional<double> evaluation_seconds = std::nullopt;  // of one; its tokens have to be known too
  bool generates = false;                                   // answers, whose time is not known

  bool counts_evaluations() const { return evaluations == 0 || evaluation_seconds; }
  // Steps, and evaluations if counts_evaluations().
  std::optional<double> hours() const;
};

RunForecast forecast_run(const Plan& plan, const Recipe& recipe, const RunLength& length,
                         const DeviceRates& rates);

}  // namespace snug
