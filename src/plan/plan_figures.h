// A plan in figures: what is left of it when it is read back from a run's folder, and enough to compare two.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "plan/plan.h"
#include "program/layer_values.h"

namespace snug {

using BytesByName = std::map<std::string, int64_t>;

struct PhaseFigures {
  std::string name;
  int64_t peak_bytes = 0;  // without the driver's context
  BytesByName roles;       // live at that peak
};

struct PlanFigures {
  std::string backend;
  int64_t peak_bytes = 0;
  std::optional<int64_t> limit_bytes;
  int64_t context_bytes = 0;
  int64_t parameters = 0;
  int64_t trainable_parameters = 0;
  std::string peak_phase;
  BytesByName roles;  // of the phase with the highest peak, and the driver's context
  std::vector<PhaseFigures> phases;
  // Of each role at the peak, the bytes of buffers that are alike in all layers; of a file without the layout
  // there are none.
  std::map<std::string, BytesByName> buffers;
  LayerValues layer_values = kAllLayerValues;  // that its layers have; of such a file not known

  std::optional<bool> fits() const {
    return limit_bytes ? std::optional(peak_bytes <= *limit_bytes) : std::nullopt;
  }
};

PlanFigures figures_of(const Plan& plan);
// What plan_to_json wrote; `path` is for errors.
PlanFigures read_plan_figures(const Json& plan, const std::string& path);

}  // namespace snug
