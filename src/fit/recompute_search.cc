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

#include "base/check.h"
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
// Sums of the same seconds in another order.
constexpr double kReckonedSecondsError = 1e-9;

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

// Policies of the first layers. Millions are compared, so they are small.
struct Mixture {
  double seconds = 0;
  int64_t kept_bytes = 0;
  uint32_t link = 0;         // of its last layers that have one policy, if there is one; else of those before
  uint16_t first_layer = 0;  // of those last ones
  uint8_t policy = 0;        // which they have
  bool has_link = true;      // without any layer: the one that stands for none
};
static_assert(kMostPolicies < 1U << 8);

class Mixtures {
 public:
  // `policies` keep more and more.
  Mixtures(std::vector<Policy> policies, int64_t room_bytes)
      : policies_(std::move(policies)), room_bytes_(room_bytes) {}

  // False if there is no room even where every layer keeps least, and is itself as small as can be.
  bool may_have_room() const {
    int64_t kept_bytes = 0;
    for (size_t layer = 0; layer < layer_count(); ++layer) {
      int64_t live_bytes = std::numeric_limits<int64_t>::max();
      int64_t least_kept = std::numeric_limits<int64_t>::max();
      for (const Policy& one : policies_) {
        live_bytes = std::min(live_bytes, one.profile.layers[layer].live_bytes);
        least_kept = std::min(least_kept, one.profile.layers[layer].kept_bytes);
      }
      if (kept_bytes + std::max(live_bytes, live_beside(layer)) > room_bytes_) {
        return false;
      }
      kept_bytes += least_kept;
    }
    return kept_bytes + live_beside(layer_count()) <= room_bytes_;
  }

  // With the seconds of the layers.
  std::vector<RecomputeMixture> best() {
    std::vector<Front> fronts(policies_.size());
    fronts[0] = {Mixture{}};
    size_t layers = layer_count();
    SNUG_CHECK(layers <= std::numeric_limits<uint16_t>::max(), "more layers than a mixture can name");
    for (size_t layer = 0; layer < layers; ++layer) {
      int64_t beside = live_beside(layer);
      Front open;  // all that may go on with this policy: later layers keep no less
      for (size_t policy = 0; policy < policies_.size(); ++policy) {
        join(open, fronts[policy]);
        thin(open);
        extend(open, layer, policy, beside, fronts[policy]);
      }
    }
    Front all;
    for (const Front& front : fronts) {
      join(all, front);
    }
    int64_t behind = live_beside(layers);
    std::erase_if(all, [&](const Mixture& one) { return one.kept_bytes + behind > room_bytes_; });
    std::vector<RecomputeMixture> found;
    thin(all);
    for (const Mixture& one : all) {
      found.push_back({policies_of(one), one.kept_bytes, one.seconds});
    }
    return found;
  }

 private:
  using Front = std::vector<Mixture>;  // slower and slower, and each smaller than the one before

  // Layers one behind the other that have one policy, and others behind them.
  struct Link {
    uint32_t policy = 0;
    uint32_t first_layer = 0;
    uint32_t before = 0;  // the link of the layers before; of the first ones, the one that stands for none
  };

  size_t layer_count() const { return policies_[0].profile.layers.size(); }

  int64_t live_beside(size_t layers) const {
    int64_t most = 0;
    for (const Policy& one : policies_) {
      most = std::max(most, one.profile.live_beside[layers]);
    }
    return most;
  }

  // The link of its last layers. Most mixtures are beaten before another policy follows in them, and never
  // have one.
  uint32_t link_of(Mixture& mixture) {
    if (!mixture.has_link) {
      links_.push_back({mixture.policy, mixture.first_layer, mixture.link});
      mixture.link = static_cast<uint32_t>(links_.size() - 1);
      mixture.has_link = true;
    }
    return mixture.link;
  }

  // `next` becomes those of `open` that have room for this policy in the next layer, with it.
  void extend(Front& open, size_t layer, size_t policy, int64_t beside, Front& next) {
    const LayerProfile& profile = policies_[policy].profile.layers[layer];
    int64_t most_kept = room_bytes_ - std::max(profile.live_bytes, beside);
    auto first = std::partition_point(open.begin(), open.end(),
                                      [&](const Mixture& one) { return one.kept_bytes > most_kept; });
    next.clear();
    for (auto one = first; one != open.end(); ++one) {
      bool goes_on = layer > 0 && one->policy == policy;
      Mixture longer = *one;
      longer.seconds += profile.seconds;
      longer.kept_bytes += profile.kept_bytes;
      if (!goes_on) {
        longer.link = link_of(*one);
        longer.has_link = false;
        longer.first_layer = static_cast<uint16_t>(layer);
        longer.policy = static_cast<uint8_t>(policy);
      }
      append(longer, next);
    }
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

  // What of both is not both slower and larger than another.
  void join(Front& front, const Front& other) {
    if (other.empty()) {
      return;
    }
    joined_.clear();
    auto a = front.begin();
    auto b = other.begin();
    while (a != front.end() || b != other.end()) {
      bool is_a = b == other.end() || (a != front.end() && a->seconds <= b->seconds);
      append(is_a ? *a++ : *b++, joined_);
    }
    front.swap(joined_);
  }

  // Leaves no more than are looked at, evenly spread.
  static void thin(Front& front) {
    if (front.size() <= kMostMixtures) {
      return;
    }
    for (size_t i = 0; i < kMostMixtures; ++i) {
      front[i] = front[i * (front.size() - 1) / (kMostMixtures - 1)];
    }
    front.resize(kMostMixtures);
  }

  std::vector<Recompute> policies_of(const Mixture& mixture) const {
    std::vector<Recompute> policies(layer_count(), policies_[mixture.policy].policy);
    auto end = policies.begin() + mixture.first_layer;
    uint32_t link = mixture.has_link ? links_[mixture.link].before : mixture.link;
    for (; link != 0; link = links_[link].before) {
      auto first = policies.begin() + links_[link].first_layer;
      std::fill(first, end, policies_[links_[link].policy].policy);
      end = first;
    }
    return policies;
  }

  std::vector<Policy> policies_;
  int64_t room_bytes_;              // for what does not persist
  std::vector<Link> links_ = {{}};  // mixtures that begin alike share theirs
  Front joined_;                    // while two fronts are joined
};

std::vector<Policy> profiles_of(const RecomputeProblem& problem) {
  std::vector<Policy> policies;
  for (Recompute policy : problem.policies) {
    policies.push_back(with_profile(policy, problem.profile_with));
  }
  return policies;
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

bool may_have_room(const RecomputeProblem& problem) {
  return Mixtures(profiles_of(problem), problem.room_bytes).may_have_room();
}

std::vector<RecomputeMixture> mixtures_that_might_fit(const RecomputeProblem& problem, double kept_seconds) {
  double beside = kept_seconds - with_profile(Recompute::none, problem.profile_with).seconds;
  std::vector<RecomputeMixture> mixtures = Mixtures(profiles_of(problem), problem.room_bytes).best();
  for (RecomputeMixture& one : mixtures) {
    one.seconds += beside;
  }
  return mixtures;
}

std::optional<PlannedCandidate> first_that_fits(const std::vector<RecomputeMixture>& mixtures, int64_t layers,
                                                const PlanWith& plan_with,
                                                std::optional<double> faster_than) {
  int64_t most_kept = std::numeric_limits<int64_t>::max();
  int plans = 0;
  for (const RecomputeMixture& one : mixtures) {
    if (faster_than && one.seconds > *faster_than * (1 + kReckonedSecondsError)) {
      return std::nullopt;
    }
    if (one.kept_bytes > most_kept) {
      continue;
    }
    PlannedCandidate candidate = plan_with(one.policies);
    if (candidate.fits()) {
      return candidate;
    }
    int64_t excess = candidate.plan.peak_bytes - *candidate.limit_bytes;
    most_kept = one.kept_bytes - (++plans < kMostPlans ? 0 : excess);
  }
  PlannedCandidate smallest = smallest_recompute(layers, plan_with);
  return smallest.fits() ? std::optional(std::move(smallest)) : std::nullopt;
}

}  // namespace snug
