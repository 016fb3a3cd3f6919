// First the policies of one layer that are worth having, then their mixtures over all layers. Time and live
// bytes add up over layers, so programs with one policy in all of them tell about every mixture; a real plan
// has the last word.
#include "fit/recompute_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "program/names.h"
#include "recipe/choices.h"
#include "recipe/recompute_key.h"

namespace snug {
namespace {

// More policies than these make the search slow, and no plan noticeably faster.
constexpr size_t kMostPolicies = 32;
// Mixtures that are looked at with as many layers.
constexpr size_t kMostMixtures = 4096;
// Placement may lose a little of what was reckoned. After so many plans that do not fit, those that keep
// hardly less are passed over.
constexpr int kMostPlans = 8;

// A policy in all layers.
struct Policy {
  Recompute policy;
  PolicyProfile profile = {};
  int64_t kept_bytes = 0;
  int64_t live_bytes = 0;  // at most, in a layer
  double seconds = 0;
};

Policy with_profile(Recompute policy, const ProfileWith& profile_with) {
  Policy result{policy, profile_with(policy)};
  for (const LayerProfile& layer : result.profile.layers) {
    result.kept_bytes += layer.kept_bytes;
    result.live_bytes = std::max(result.live_bytes, layer.live_bytes);
    result.seconds += layer.seconds;
  }
  return result;
}

// The values whose keeping makes a difference.
LayerValues relevant_values(const ProfileWith& profile_with) {
  LayerValues relevant;
  Policy all = with_profile(Recompute::none, profile_with);
  for (int index = 0; index < kLayerValueCount; ++index) {
    auto value = static_cast<LayerValue>(index);
    Policy without = with_profile({kAllLayerValues.without(value)}, profile_with);
    if (without.kept_bytes != all.kept_bytes || without.seconds != all.seconds) {
      relevant = relevant.with(value);
    }
  }
  return relevant;
}

// The same for this model, by its name if it has one.
Recompute named(LayerValues kept, LayerValues relevant) {
  for (const auto& [name, policy] : kRecomputePolicies) {
    if (policy.kept.in_common_with(relevant) == kept) {
      return policy;
    }
  }
  return {kept};
}

// Policies of the first layers.
struct Mixture {
  double seconds = 0;
  int64_t kept_bytes = 0;
  uint32_t last = 0;  // the link of its last layer
};

struct Found {
  std::vector<Recompute> policies;
  int64_t kept_bytes = 0;
};

class Mixtures {
 public:
  // `policies` keep more and more.
  Mixtures(std::vector<Policy> policies, int64_t room_bytes)
      : policies_(std::move(policies)), room_bytes_(room_bytes) {}

  // All that might fit and are not both slower and larger than another, fastest first.
  std::vector<Found> best() {
    std::vector<Front> fronts(policies_.size());
    fronts[0] = {Mixture{}};
    size_t layers = policies_[0].profile.layers.size();
    for (size_t layer = 0; layer < layers; ++layer) {
      int64_t beside = live_beside(layer);
      Front open;  // all that may go on with this policy: later layers keep no less
      for (size_t policy = 0; policy < policies_.size(); ++policy) {
        open = thinned(best_of(open, fronts[policy]));
        fronts[policy] = extended(open, layer, policy, beside);
      }
    }
    Front all;
    for (const Front& front : fronts) {
      all = best_of(all, front);
    }
    int64_t beside = live_beside(layers);
    std::erase_if(all, [&](const Mixture& one) { return one.kept_bytes + beside > room_bytes_; });
    std::vector<Found> found;
    for (const Mixture& one : thinned(std::move(all))) {
      found.push_back({policies_of(one), one.kept_bytes});
    }
    return found;
  }

 private:
  using Front = std::vector<Mixture>;  // slower and slower, and each smaller than the one before

  struct Link {
    uint32_t policy = 0;
    uint32_t before = 0;  // the link of the layer before; of the first layer, the one that stands for none
  };

  int64_t live_beside(size_t layers) const {
    int64_t most = 0;
    for (const Policy& one : policies_) {
      most = std::max(most, one.profile.live_beside[layers]);
    }
    return most;
  }

  // Those that have room for this policy in the next layer, with it.
  Front extended(const Front& open, size_t layer, size_t policy, int64_t beside) {
    const LayerProfile& profile = policies_[policy].profile.layers[layer];
    int64_t most_kept = room_bytes_ - std::max(profile.live_bytes, beside);
    Front next;
    for (const Mixture& one : open) {
      if (one.kept_bytes <= most_kept) {
        links_.push_back({static_cast<uint32_t>(policy), one.last});
        append({one.seconds + profile.seconds, one.kept_bytes + profile.kept_bytes,
                static_cast<uint32_t>(links_.size() - 1)},
               next);
      }
    }
    return next;
  }

  // `one` is no faster than what is there.
  static void append(const Mixture& one, Front& front) {
    if (!front.empty() && front.back().kept_bytes <= one.kept_bytes) {
      return;
    }
    if (!front.empty() && front.back().seconds == one.seconds) {
      front.pop_back();
    }
    front.push_back(one);
  }

  static Front best_of(const Front& a, const Front& b) {
    Front best;
    best.reserve(a.size() + b.size());
    auto next_a = a.begin();
    auto next_b = b.begin();
    while (next_a != a.end() || next_b != b.end()) {
      bool is_a = next_b == b.end() || (next_a != a.end() && next_a->seconds <= next_b->seconds);
      append(is_a ? *next_a++ : *next_b++, best);
    }
    return best;
  }

  // No more than are looked at, evenly spread.
  static Front thinned(Front front) {
    if (front.size() <= kMostMixtures) {
      return front;
    }
    for (size_t i = 0; i < kMostMixtures; ++i) {
      front[i] = front[i * (front.size() - 1) / (kMostMixtures - 1)];
    }
    front.resize(kMostMixtures);
    return front;
  }

  std::vector<Recompute> policies_of(const Mixture& mixture) const {
    std::vector<Recompute> policies;
    for (uint32_t link = mixture.last; link != 0; link = links_[link].before) {
      policies.push_back(policies_[links_[link].policy].policy);
    }
    std::reverse(policies.begin(), policies.end());
    return policies;
  }

  std::vector<Policy> policies_;
  int64_t room_bytes_;              // for what does not persist
  std::vector<Link> links_ = {{}};  // mixtures that begin alike share theirs
};

std::vector<Found> mixtures_for(const RecomputeProblem& problem) {
  std::vector<Policy> policies;
  for (Recompute policy : problem.policies) {
    policies.push_back(with_profile(policy, problem.profile_with));
  }
  return Mixtures(std::move(policies), problem.room_bytes).best();
}

// The word for a policy by which layers of this model recompute so much; "" if there is none.
std::string_view word_for(LayerValues recomputed, LayerValues of_model) {
  for (const auto& [name, policy] : kRecomputePolicies) {
    if (policy.kept.others_of(of_model) == recomputed) {
      return name;
    }
  }
  return "";
}

}  // namespace

std::string describe(const std::vector<Recompute>& policies, LayerValues of_model) {
  std::vector<LayerValues> recomputed;
  for (Recompute policy : policies) {
    recomputed.push_back(policy.kept.others_of(of_model));
  }
  bool all_alike = std::all_of(recomputed.begin(), recomputed.end(),
                               [&](LayerValues values) { return values == recomputed.front(); });
  if (recomputed.empty() || (all_alike && recomputed.front() == LayerValues{})) {
    return "nothing recomputed";
  }
  if (all_alike) {
    std::string_view word = word_for(recomputed.front(), of_model);
    return word.empty()
               ? fmt::format("recomputation of {} in all layers", names_of(recomputed.front(), of_model))
               : fmt::format("{} recomputation in all layers", word);
  }
  std::string text;
  for (size_t first = 0; first < recomputed.size();) {
    size_t last = first;
    while (last + 1 < recomputed.size() && recomputed[last + 1] == recomputed[first]) {
      ++last;
    }
    if (recomputed[first] != LayerValues{}) {
      text += fmt::format("{} {} ({})", text.empty() ? "recomputation in layers" : ",",
                          layers_text(first, last), names_of(recomputed[first], of_model));
    }
    first = last + 1;
  }
  return text;
}

std::string describe_recompute(const Recipe& recipe, const Plan& plan) {
  return describe(recipe.memory.recompute, layer_values_of(plan.phase(kTrainPhase).program));
}

std::vector<Recompute> worthwhile_policies(const ProfileWith& profile_with) {
  LayerValues relevant = relevant_values(profile_with);
  std::vector<Policy> all;
  for (uint32_t bits = 0; bits <= kAllLayerValues.bits; ++bits) {
    if ((bits & ~relevant.bits) == 0) {
      all.push_back(with_profile(named({bits}, relevant), profile_with));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Policy& a, const Policy& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.kept_bytes < b.kept_bytes;
  });
  std::vector<Policy> best;
  for (Policy& one : all) {
    bool is_beaten = std::any_of(best.begin(), best.end(), [&](const Policy& faster) {
      return faster.kept_bytes <= one.kept_bytes && faster.live_bytes <= one.live_bytes;
    });
    if (!is_beaten) {
      best.push_back(std::move(one));
    }
  }
  std::stable_sort(best.begin(), best.end(),
                   [](const Policy& a, const Policy& b) { return a.kept_bytes > b.kept_bytes; });
  while (best.size() > kMostPolicies) {  // those without which the loss is least are left out
    // What a mixture of its neighbours with as many bytes would take longer.
    auto gain = [&](size_t i) {
      const Policy& more = best[i - 1];
      const Policy& less = best[i + 1];
      double share = static_cast<double>(more.kept_bytes - best[i].kept_bytes) /
                     static_cast<double>(more.kept_bytes - less.kept_bytes);
      return more.seconds + share * (less.seconds - more.seconds) - best[i].seconds;
    };
    size_t least = 1;
    for (size_t i = 2; i + 1 < best.size(); ++i) {
      least = gain(i) < gain(least) ? i : least;
    }
    best.erase(best.begin() + static_cast<std::ptrdiff_t>(least));
  }
  std::vector<Recompute> policies;
  for (const Policy& one : best) {
    policies.insert(policies.begin(), one.policy);
  }
  return policies;
}

PlannedCandidate smallest_recompute(int64_t layers, const PlanWith& plan_with) {
  std::optional<PlannedCandidate> least;
  // To keep the last layer, which comes first in the backward pass, may take less.
  for (Recompute last : {Recompute::full, Recompute::selective, Recompute::none}) {
    std::vector<Recompute> policies(static_cast<size_t>(layers), Recompute::full);
    policies.back() = last;
    PlannedCandidate one = plan_with(policies);
    if (!least || one.plan.peak_bytes < least->plan.peak_bytes) {
      least = std::move(one);
    }
  }
  return std::move(*least);
}

std::optional<PlannedCandidate> least_recompute(const RecomputeProblem& problem) {
  int64_t most_kept = std::numeric_limits<int64_t>::max();
  int plans = 0;
  std::vector<Found> mixtures = mixtures_for(problem);
  for (const Found& one : mixtures) {
    if (one.kept_bytes > most_kept) {
      continue;
    }
    PlannedCandidate candidate = problem.plan_with(one.policies);
    if (candidate.fits()) {
      return candidate;
    }
    int64_t excess = candidate.plan.peak_bytes - *candidate.limit_bytes;
    most_kept = one.kept_bytes - (++plans < kMostPlans ? 0 : excess);
  }
  if (mixtures.empty()) {
    return std::nullopt;
  }
  PlannedCandidate smallest = smallest_recompute(problem.layers, problem.plan_with);
  return smallest.fits() ? std::optional(std::move(smallest)) : std::nullopt;
}

}  // namespace snug
