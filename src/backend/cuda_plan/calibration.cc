// From seconds to rates, and from rates to what is planned by.
#include "backend/cuda_plan/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/op_seconds.h"
#include "base/error.h"
#include "ops/table.h"

namespace snug::cuda {
namespace {

// What the probes reach beside what the op table's figures make of them, on the H200 on which those were
// seen over whole steps: one shape of each kind stands for all.
constexpr double kUsualProducts = 1;
constexpr double kUsualMemory = 1;
constexpr std::array<double, kPaceCount> kUsualPaces = {1, 1.325, 1.176, 0.774};

// A rate is doubted above and below these shares of what the units could do, a pace beyond such factors.
constexpr double kMostShare = 1.3;
constexpr double kLeastShare = 1.0 / 20;
constexpr double kMostPace = 20;

constexpr double kStepsOfTen = 48;  // to ten times as much: 4.9% each

double in_steps(double value) {
  return std::pow(10.0, std::round(kStepsOfTen * std::log10(value)) / kStepsOfTen);
}

double seconds_of_probe(const Probe& probe, const DeviceRates& rates) {
  double seconds = 0;
  for (size_t i = probe.first_timed; i < probe.program.ops.size(); ++i) {
    seconds += seconds_of(cost_of(probe.program, probe.program.ops[i]), rates);
  }
  return seconds;
}

// Sets the rate so that the probe takes as long as it did. More of it never takes longer.
void solve(double& rate, const DeviceRates& rates, const Probe& probe, double seconds) {
  constexpr double kWidest = 1e4;
  constexpr int kHalvings = 60;
  double low = rate / kWidest;
  double high = rate * kWidest;
  for (int i = 0; i < kHalvings; ++i) {
    rate = std::sqrt(low * high);
    (seconds_of_probe(probe, rates) > seconds ? low : high) = rate;
  }
}

Pace pace_of(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::attention:
      return Pace::attention;
    case ProbeKind::attention_backward:
      return Pace::attention_backward;
    case ProbeKind::adapter:
      return Pace::adapter;
    case ProbeKind::memory:
    case ProbeKind::products:
      break;
  }
  return Pace::usual;
}

bool is_within(double value, double least, double most) {
  return std::isfinite(value) && value >= least && value <= most;
}

// Of rates: also where the shape is not known.
std::string find_share_problem(const char* what, double value, double peak) {
  bool is_number = std::isfinite(value) && value > 0;
  if (is_number && (peak <= 0 || is_within(value / peak, kLeastShare, kMostShare))) {
    return "";
  }
  return is_number ? fmt::format("{} at {:.3g} of what its units could do", what, value / peak)
                   : fmt::format("{} at no rate", what);
}

// False: the next start measures again.
bool remember(const std::filesystem::path& folder, const CardKey& key, const ReachedRates& reached) {
  try {
    if (!folder.empty()) {
      write_card_record(folder, key, reached);
    }
    return !folder.empty();
  } catch (const Error&) {
    return false;
  }
}

std::string assumed(const std::string& why) {
  return "assumed from the card's shape: " + why;
}

}  // namespace

DType probed_dtype(const CardShape& shape) {
  return has_bf16(shape) ? DType::bf16 : DType::f16;
}

ReachedRates reached_rates(const CardShape& shape, const ProbeSeconds& seconds) {
  DType dtype = probed_dtype(shape);
  DeviceRates rates = rates_of(shape, dtype, false);
  std::vector<Probe> probes = card_probes(dtype);
  constexpr int kRounds = 4;  // products hide a little of memory's time, and memory of theirs
  for (int round = 0; round < kRounds; ++round) {
    for (const Probe& probe : probes) {
      double& rate = probe.kind == ProbeKind::memory ? rates.bytes_per_second
                     : probe.kind == ProbeKind::products
                         ? rates.product_flops
                         : rates.paces[static_cast<size_t>(pace_of(probe.kind))];
      solve(rate, rates, probe, seconds[static_cast<size_t>(probe.kind)]);
    }
  }
  return {
      .product_flops = rates.product_flops, .bytes_per_second = rates.bytes_per_second, .paces = rates.paces};
}

std::string find_rates_problem(const CardShape& shape, const ReachedRates& reached) {
  std::string problem =
      find_share_problem("products", reached.product_flops, peak_flops(shape, probed_dtype(shape), false));
  if (problem.empty()) {
    problem = find_share_problem("memory", reached.bytes_per_second, shape.memory_bytes_hz);
  }
  bool paces_are_well = std::all_of(reached.paces.begin(), reached.paces.end(),
                                    [](double pace) { return is_within(pace, 1 / kMostPace, kMostPace); });
  return problem.empty() && !paces_are_well ? "attention or adapters far from what is usual" : problem;
}

DeviceRates measured_rates(const CardShape& shape, DType dtype, bool tf32, const ReachedRates& reached) {
  DeviceRates rates = rates_of(shape, dtype, tf32);
  if (dtype == DType::f16 || dtype == probed_dtype(shape)) {
    double product_flops = in_steps(reached.product_flops / kUsualProducts);
    rates.ceiling_flops *= product_flops / rates.product_flops;
    rates.product_flops = product_flops;
  }
  rates.bytes_per_second = in_steps(reached.bytes_per_second / kUsualMemory);
  for (size_t i = 0; i < kPaceCount; ++i) {
    rates.paces[i] = in_steps(reached.paces[i] / kUsualPaces[i]);
  }
  return rates;
}

Calibration calibrate(const CardToMeasure& card, const std::filesystem::path& folder, bool again) {
  constexpr const char* kMeasured = "measured on this card";
  if (!again && !folder.empty()) {
    std::optional<ReachedRates> known = find_card_record(folder, card.key);
    if (known && find_rates_problem(card.shape, *known).empty()) {
      return {.reached = known, .text = kMeasured};
    }
  }
  if (std::string obstacle = card.find_obstacle(); !obstacle.empty()) {
    return {.reached = std::nullopt, .text = assumed(obstacle)};
  }
  ReachedRates reached;
  try {
    reached = reached_rates(card.shape, card.measure());
  } catch (const Error& error) {
    return {.reached = std::nullopt, .text = assumed(fmt::format("measuring it failed: {}", error.what()))};
  }
  if (std::string problem = find_rates_problem(card.shape, reached); !problem.empty()) {
    return {.reached = std::nullopt, .text = assumed("what was measured cannot be: " + problem)};
  }
  return {
      .reached = reached,
      .text = fmt::format("{}{}", kMeasured, remember(folder, card.key, reached) ? "" : ", not remembered")};
}

}  // namespace snug::cuda
