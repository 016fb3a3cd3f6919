// A card's rates as measured on it, beside those that its shape lets expect. What is measured is behind a
// function here: this is host code of every build.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "backend/cuda_plan/card_rates.h"
#include "backend/cuda_plan/card_record.h"
#include "backend/cuda_plan/probes.h"

namespace snug::cuda {

// The dtype of 16 bits that its matrix units multiply.
DType probed_dtype(const CardShape& shape);

// By the op table's costs: at what rates the probes take as long as they did.
ReachedRates reached_rates(const CardShape& shape, const ProbeSeconds& seconds);

// Why nobody should plan by them: no numbers, far above what the units could do, or far below. "" if they
// may be.
std::string find_rates_problem(const CardShape& shape, const ReachedRates& reached);

// The shape's rates with what was measured in their place, in steps of about 5%: two measurements of a card
// give the same rates nearly always, and with them the same choices.
DeviceRates measured_rates(const CardShape& shape, DType dtype, bool tf32, const ReachedRates& reached);

struct CardToMeasure {
  CardKey key;
  CardShape shape;
  std::function<std::string()> find_obstacle;  // why it must not be measured now; "": it may be
  std::function<ProbeSeconds()> measure;       // may throw Error
};

struct Calibration {
  std::optional<ReachedRates> reached;  // nothing: the shape's rates are all there is
  std::string text;                     // RatesOrigin::text
};

// What is remembered of this card in `folder` ("": nothing is), or else what is measured now and remembered.
// `again`: measured in any case. Whatever fails, there is an answer.
Calibration calibrate(const CardToMeasure& card, const std::filesystem::path& folder, bool again);

}  // namespace snug::cuda
