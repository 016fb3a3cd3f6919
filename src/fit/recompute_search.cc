// Layers are much alike: what two of them save and cost is twice what one does. So three plans tell about
// all of them, and some more, made for good, find the place where they begin to fit.
#include "fit/recompute_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace snug {
namespace {

// The first `full` layers, and `selective` ones behind them.
struct Depth {
  int64_t full = 0;
  int64_t selective = 0;
  double seconds = 0;  // as the three plans tell
  double bytes = 0;
};

std::vector<Recompute> policies_of(const Depth& depth, int64_t layers) {
  std::vector<Recompute> policies(static_cast<size_t>(layers), Recompute::none);
  std::fill_n(policies.begin(), depth.full, Recompute::full);
  std::fill_n(policies.begin() + depth.full, depth.selective, Recompute::selective);
  return policies;
}

// Those that are not both slower and larger than another, fastest first.
std::vector<Depth> best_depths(const PlannedCandidate& kept, const PlannedCandidate& selective,
                               const PlannedCandidate& full, int64_t layers) {
  auto per_layer = [&](double from, double to) { return (to - from) / static_cast<double>(layers); };
  auto bytes_of = [](const PlannedCandidate& one) { return static_cast<double>(one.plan.peak_bytes()); };
  std::vector<Depth> all;
  for (int64_t f = 0; f <= layers; ++f) {
    for (int64_t s = 0; s <= layers - f; ++s) {
      auto of_full = static_cast<double>(f);
      auto of_selective = static_cast<double>(s);
      all.push_back({f, s,
                     kept.seconds + of_full * per_layer(kept.seconds, full.seconds) +
                         of_selective * per_layer(kept.seconds, selective.seconds),
                     bytes_of(kept) + of_full * per_layer(bytes_of(kept), bytes_of(full)) +
                         of_selective * per_layer(bytes_of(kept), bytes_of(selective))});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Depth& a, const Depth& b) { return a.seconds < b.seconds; });
  std::vector<Depth> best;
  for (const Depth& depth : all) {
    if (best.empty() || depth.bytes < best.back().bytes) {
      best.push_back(depth);
    }
  }
  if (best.back().full != layers) {  // the last resort, whatever the estimates say
    best.push_back({layers, 0, full.seconds, bytes_of(full)});
  }
  return best;
}

}  // namespace

std::string describe(const std::vector<Recompute>& policies) {
  auto in_layers = [&](Recompute policy) {
    int64_t count = std::count(policies.begin(), policies.end(), policy);
    return count == std::ssize(policies) ? std::string("in all layers")
                                         : fmt::format("in {} of {} layers", count, policies.size());
  };
  bool full = std::count(policies.begin(), policies.end(), Recompute::full) > 0;
  bool selective = std::count(policies.begin(), policies.end(), Recompute::selective) > 0;
  if (full && selective) {
    return fmt::format("full recomputation {}, selective {}", in_layers(Recompute::full),
                       in_layers(Recompute::selective));
  }
  if (full || selective) {
    return fmt::format("{} recomputation {}", full ? "full" : "selective",
                       in_layers(full ? Recompute::full : Recompute::selective));
  }
  return "nothing recomputed";
}

PlannedCandidate least_recompute(PlannedCandidate kept, int64_t layers, const PlanWith& plan_with) {
  PlannedCandidate full = plan_with(policies_of({.full = layers, .selective = 0}, layers));
  if (!full.plan.fits()) {  // to keep the last layer, which comes first in the backward pass, may take less
    PlannedCandidate other = plan_with(policies_of({.full = layers - 1, .selective = 1}, layers));
    PlannedCandidate third = plan_with(policies_of({.full = layers - 1, .selective = 0}, layers));
    for (PlannedCandidate* one : {&other, &third}) {
      if (one->plan.peak_bytes() < full.plan.peak_bytes()) {
        full = std::move(*one);
      }
    }
    return full;
  }
  PlannedCandidate selective = plan_with(policies_of({.full = 0, .selective = layers}, layers));
  std::vector<Depth> depths = best_depths(kept, selective, full, layers);
  std::map<int64_t, PlannedCandidate> made;
  auto candidate = [&](int64_t index) -> const PlannedCandidate& {
    auto found = made.find(index);
    if (found == made.end()) {
      found = made.emplace(index, plan_with(policies_of(depths[static_cast<size_t>(index)], layers))).first;
    }
    return found->second;
  };
  // The first that fits lies behind `low` and no later than `high`; the estimate says where to look first.
  int64_t low = 0;
  int64_t high = std::ssize(depths) - 1;
  auto limit = static_cast<double>(*kept.plan.limit_bytes);
  int64_t guess =
      std::find_if(depths.begin(), depths.end(), [&](const Depth& depth) { return depth.bytes <= limit; }) -
      depths.begin();
  guess = std::clamp(guess, low + 1, std::max(low + 1, high - 1));
  for (int64_t reach = 1; low + 1 < high; reach *= 2) {
    if (candidate(guess).plan.fits()) {
      high = guess;
      guess = std::max(guess - reach, low + 1);
    } else {
      low = guess;
      guess = std::min(guess + reach, high - 1);
    }
  }
  PlannedCandidate found = made.contains(high) ? std::move(made.at(high)) : std::move(full);
  return found;
}

}  // namespace snug
