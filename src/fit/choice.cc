// Micro-batches of every size, each with the recomputation that costs least.
#include "fit/choice.h"

#include <algorithm>
#include <utility>

#include "compile/phases.h"
#include "fit/recompute_search.h"
#include "fit/remedies.h"
#include "plan/lower.h"
#include "plan/micro_batch_plans.h"
#include "plan/speed.h"
#include "plan/training.h"
#include "program/names.h"

namespace snug {
namespace {

// Rows of logits held at once where all that the kernels choose by themselves has no room: one tile of a
// product.
constexpr int64_t kFewestChunkTokens = 128;

// To choose by where a device does not tell its rates: some card. What matters is how a product compares with
// reading memory.
constexpr DeviceRates kAnyRates = {
    .product_flops = 100e12, .ceiling_flops = 100e12, .bytes_per_second = 800e9, .seconds_per_op = 4e-6};

DeviceRates rates_to_choose_by(const Device& device, DType dtype) {
  DeviceRates rates = device.rates(dtype);
  return rates.product_flops > 0 ? rates : kAnyRates;
}

class PlanChoice {
 public:
  PlanChoice(const Recipe& recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits)
      : recipe_(recipe),
        spec_(spec),
        device_(device),
        limits_(limits),
        rates_(rates_to_choose_by(device, run_dtype(recipe, spec))) {}

  FittedRecipe make() {
    bool is_open = !recipe_.memory.micro_batch_tokens || recipe_.memory.recompute.empty();
    std::vector<int64_t> sizes = recipe_.memory.micro_batch_tokens
                                     ? std::vector<int64_t>{*recipe_.memory.micro_batch_tokens}
                                     : micro_batch_sizes(recipe_, spec_, limits_);
    std::vector<int64_t> chunks = {recipe_.memory.loss_chunk_tokens};
    if (chunks.front() == 0 && is_open) {  // a run that goes on keeps its sums
      chunks.push_back(kFewestChunkTokens);
    }
    for (int64_t chunk : chunks) {
      Recipe chunked = recipe_;
      chunked.memory.loss_chunk_tokens = chunk;
      chunked.memory.micro_batch_tokens = sizes.front();
      MicroBatchPlans plans(chunked, spec_, device_, limits_);
      for (int64_t tokens : sizes) {
        chunked.memory.micro_batch_tokens = tokens;
        bool is_last = tokens == sizes.back() && chunk == chunks.back();
        if (!plans.has_room() && kept_seconds_ > 0 && tokens != sizes.back()) {
          continue;  // the smallest is as good as any
        }
        if (!try_size(chunked, plans, is_last)) {
          break;
        }
      }
      if (best_ && best_->fits()) {
        break;
      }
    }
    Plan plan = plan_training(best_->recipe, spec_, device_, limits_);
    FittedRecipe fitted{std::move(best_->recipe), std::move(plan), is_open};
    fitted.kept_peak_bytes = kept_peak_bytes_;
    fitted.seconds = best_->plan.seconds;
    fitted.slower = kept_seconds_ > 0 ? best_->plan.seconds / kept_seconds_ - 1 : 0;
    return fitted;
  }

 private:
  // False if smaller micro-batches cannot be faster. `is_last`: there is nothing smaller to try.
  bool try_size(const Recipe& sized, MicroBatchPlans& plans, bool is_last) {
    auto plan_with = [&](const std::vector<Recompute>& policies) {
      Recipe candidate = sized;
      candidate.memory.recompute = policies;
      MicroBatchPlan plan = plans.with(candidate, rates_);
      return PlannedCandidate{std::move(candidate), std::move(plan), memory_limit(recipe_, device_)};
    };
    bool is_hopeless = !plans.has_room() && recipe_.memory.recompute.empty();
    if (!is_hopeless || kept_seconds_ == 0) {
      PlannedCandidate kept = plan_with(recipe_.memory.recompute);
      if (kept_seconds_ == 0) {
        kept_seconds_ = kept.plan.seconds;
        kept_peak_bytes_ = kept.plan.peak_bytes;
      }
      bool all_kept = kept.fits();
      if (all_kept && recipe_.memory.recompute.empty()) {
        kept.recipe.memory.recompute = {Recompute::none};
      }
      if (all_kept || !recipe_.memory.recompute.empty()) {
        take(std::move(kept));
        return !all_kept;
      }
      std::optional<PlannedCandidate> found =
          is_hopeless ? std::nullopt : find_recompute(sized, plans, kept.plan, plan_with);
      if (found) {
        take(std::move(*found));
        return true;
      }
    }
    if (is_last) {  // the smallest of all is as good as any that do not fit
      take(smallest_recompute(spec_.all_layers(), plan_with));
    }
    return true;
  }

  std::optional<PlannedCandidate> find_recompute(const Recipe& sized, MicroBatchPlans& plans,
                                                 const MicroBatchPlan& kept, const PlanWith& plan_with) {
    FewLayers few = few_layers(spec_, kept.train.program);
    BatchLimits planned = planned_batch(kept.train.program);
    Program built = build_micro_batch(sized, few.spec, planned);
    auto profile_with = [&](Recompute policy) {
      Recipe candidate = sized;
      candidate.memory.recompute = {policy};
      Program program = lower(finish_micro_batch(built, candidate, few.spec), device_);
      return of_all_layers(profile_layers(program, few.spec.all_layers(), kept.step, rates_), few, spec_);
    };
    if (policies_.empty()) {
      policies_ = worthwhile_policies(profile_with);
    }
    return least_recompute({spec_.all_layers(), policies_, plan_with, profile_with, plans.room_bytes()});
  }

  // The fastest of those that fit; the smallest as long as none does.
  void take(PlannedCandidate candidate) {
    bool fits = candidate.fits();
    bool is_better = !best_ || (fits && !best_->fits()) ||
                     (fits ? candidate.plan.seconds < best_->plan.seconds
                           : !best_->fits() && candidate.plan.peak_bytes < best_->plan.peak_bytes);
    if (is_better) {
      best_ = std::move(candidate);
    }
  }

  const Recipe& recipe_;
  const ModelSpec& spec_;
  const Device& device_;
  const LimitsOf& limits_;
  DeviceRates rates_;
  std::vector<Recompute> policies_;  // for a layer, that are worth having
  std::optional<PlannedCandidate> best_;
  int64_t kept_peak_bytes_ = 0;
  double kept_seconds_ = 0;
};

}  // namespace

std::vector<int64_t> micro_batch_sizes(const Recipe& recipe, const ModelSpec& spec, const LimitsOf& limits) {
  std::vector<int64_t> sizes;
  std::vector<BatchLimits> known;
  int64_t length = recipe.data.max_length;
  for (int64_t tokens = micro_batch_tokens(recipe); tokens > 0;) {
    Recipe candidate = recipe;
    candidate.memory.micro_batch_tokens = tokens;
    BatchLimits planned = limits ? limits(candidate).train : recipe_limits(candidate, spec).train;
    if (std::find(known.begin(), known.end(), planned) == known.end()) {
      known.push_back(planned);
      sizes.push_back(tokens);
    }
    // Whole sequences of max_length; below that, down to the longest that the data has.
    tokens = tokens > length ? std::max<int64_t>(tokens / length / 2, 1) * length : tokens / 2;
  }
  return sizes;
}

FittedRecipe choose_plan(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                         const LimitsOf& limits) {
  return PlanChoice(recipe, spec, device, limits).make();
}

int64_t least_peak_bytes(Recipe recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits) {
  open_all(recipe);
  recipe.memory.micro_batch_tokens = micro_batch_sizes(recipe, spec, limits).back();
  recipe.memory.loss_chunk_tokens = kFewestChunkTokens;
  MicroBatchPlans plans(recipe, spec, device, limits);
  DeviceRates rates = rates_to_choose_by(device, run_dtype(recipe, spec));
  auto plan_with = [&](const std::vector<Recompute>& policies) {
    Recipe candidate = recipe;
    candidate.memory.recompute = policies;
    return PlannedCandidate{candidate, plans.with(candidate, rates)};
  };
  return smallest_recompute(spec.all_layers(), plan_with).plan.peak_bytes;
}

double expected_step_seconds(const Plan& plan, const Device& device, DType dtype) {
  return step_seconds(plan, rates_to_choose_by(device, dtype));
}

}  // namespace snug
