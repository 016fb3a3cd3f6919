// Micro-batches of every size, each with the recomputation that costs least.
#include "fit/choice.h"

#include <algorithm>
#include <memory>
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

  ChosenRecipe make() {
    bool is_open = !recipe_.memory.micro_batch_tokens || is_recompute_open();
    std::vector<int64_t> sizes = recipe_.memory.micro_batch_tokens
                                     ? std::vector<int64_t>{*recipe_.memory.micro_batch_tokens}
                                     : micro_batch_sizes(recipe_, spec_, limits_);
    std::vector<int64_t> chunks = {recipe_.memory.loss_chunk_tokens};
    if (chunks.front() == 0 && is_open) {  // a run that goes on keeps its sums
      chunks.push_back(kFewestChunkTokens);
    }
    for (int64_t chunk : chunks) {
      std::vector<Recipe> sized(sizes.size(), recipe_);
      for (size_t i = 0; i < sizes.size(); ++i) {
        sized[i].memory.loss_chunk_tokens = chunk;
        sized[i].memory.micro_batch_tokens = sizes[i];
      }
      MicroBatchPlans plans(sized.front(), spec_, device_, limits_, rates_);
      try_sizes(sized, plans);
      if (best_ && best_->fits()) {
        break;
      }
      if (!best_ && chunk == chunks.back()) {  // the smallest of all is as good as any that do not fit
        take(smallest_recompute(spec_.all_layers(), planning(sized.back(), plans)));
      }
    }
    return {.recipe = std::move(best_->recipe),
            .is_chosen = is_open,
            .is_recompute_chosen = is_recompute_open(),
            .peak_bytes = best_->plan.peak_bytes,
            .fits = best_->fits(),
            .kept_peak_bytes = kept_peak_bytes_,
            .kept_seconds = kept_seconds_,
            .slower = kept_seconds_ > 0 ? best_->plan.seconds / kept_seconds_ - 1 : 0,
            .seconds = best_->plan.seconds};
  }

 private:
  // Micro-batches that do not fit with everything kept.
  struct OpenSize {
    Recipe sized;
    std::vector<RecomputeMixture> mixtures;
  };

  bool is_recompute_open() const { return recipe_.memory.recompute.empty(); }

  // Recipes that differ in the size of their micro-batches, largest first.
  void try_sizes(const std::vector<Recipe>& recipes, MicroBatchPlans& plans) {
    std::vector<OpenSize> open;
    for (const Recipe& sized : recipes) {
      bool is_first = &sized == &recipes.front();
      bool is_last = &sized == &recipes.back();
      if (!plans.has_room() && kept_seconds_ > 0 && (is_recompute_open() || !is_last)) {
        continue;  // of those that are written, the smallest is as good as any
      }
      PlannedCandidate kept = candidate(sized, plans.with(sized));
      if (kept_seconds_ == 0) {
        kept_seconds_ = kept.plan.seconds;
        kept_peak_bytes_ = kept.plan.peak_bytes;
        few_ = few_layers(spec_, kept.plan.train.program);
      }
      bool fits = kept.fits();
      double seconds = kept.plan.seconds;
      if (fits && is_recompute_open()) {
        kept.recipe.memory.recompute = {Recompute::none};
      }
      if (fits || !is_recompute_open()) {
        take(std::move(kept));
      }
      if (fits) {
        break;  // smaller micro-batches cannot be faster
      }
      if (!is_recompute_open() || !plans.has_room()) {
        continue;
      }
      open.push_back({sized, mixtures_that_might_fit(problem_of(sized, plans), seconds)});
      if (is_first && !may_have_room(problem_of(recipes.back(), plans))) {
        return;  // nor has anything between them room
      }
    }
    take_fastest(std::move(open), plans);
  }

  // What is fastest is planned first: those that cannot be as fast are not planned.
  void take_fastest(std::vector<OpenSize> open, MicroBatchPlans& plans) {
    std::erase_if(open, [](const OpenSize& one) { return one.mixtures.empty(); });
    std::stable_sort(open.begin(), open.end(), [](const OpenSize& a, const OpenSize& b) {
      return a.mixtures.front().seconds < b.mixtures.front().seconds;
    });
    for (const OpenSize& one : open) {
      std::optional<double> faster_than = best_ ? std::optional(best_->plan.seconds) : std::nullopt;
      std::optional<PlannedCandidate> found =
          first_that_fits(one.mixtures, spec_.all_layers(), planning(one.sized, plans), faster_than);
      if (found) {
        take(std::move(*found));
      }
    }
  }

  PlannedCandidate candidate(Recipe recipe, MicroBatchPlan plan) const {
    return {std::move(recipe), std::move(plan), memory_limit(recipe_, device_)};
  }

  PlanWith planning(const Recipe& sized, MicroBatchPlans& plans) const {
    return [&](const std::vector<Recompute>& policies) {
      Recipe recipe = sized;
      recipe.memory.recompute = policies;
      return candidate(recipe, plans.with(recipe));
    };
  }

  ProfileWith profiling(const Recipe& sized, const RunLimits& batches) const {
    auto built = std::make_shared<Program>(build_micro_batch(sized, few_.spec, batches.train));
    return [this, &sized, built, step = batches.step](Recompute policy) {
      Recipe recipe = sized;
      recipe.memory.recompute = {policy};
      Program program = lower(finish_micro_batch(*built, recipe, few_.spec), device_);
      return of_all_layers(profile_layers(program, few_.spec.all_layers(), step, rates_), few_, spec_);
    };
  }

  RecomputeProblem problem_of(const Recipe& sized, const MicroBatchPlans& plans) {
    ProfileWith profile_with = profiling(sized, plans.batches_of(sized));
    if (policies_.empty()) {
      policies_ = worthwhile_policies(profile_with);
    }
    return {policies_, profile_with, plans.room_bytes()};
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
  FewLayers few_;
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
  FittedRecipe fitted{choose_recipe(recipe, spec, device, limits), {}};
  fitted.plan = plan_training(fitted.recipe, spec, device, limits);
  return fitted;
}

ChosenRecipe choose_recipe(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                           const LimitsOf& limits) {
  return PlanChoice(recipe, spec, device, limits).make();
}

int64_t least_peak_bytes(Recipe recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits) {
  open_all(recipe);
  recipe.memory.micro_batch_tokens = micro_batch_sizes(recipe, spec, limits).back();
  recipe.memory.loss_chunk_tokens = kFewestChunkTokens;
  recipe.memory.recompute.assign(static_cast<size_t>(spec.all_layers()), Recompute::full);
  MicroBatchPlans plans(recipe, spec, device, limits, rates_to_choose_by(device, run_dtype(recipe, spec)));
  auto plan_with = [&](const std::vector<Recompute>& policies) {
    Recipe candidate = recipe;
    candidate.memory.recompute = policies;
    return PlannedCandidate{candidate, plans.with(candidate)};
  };
  return smallest_recompute(spec.all_layers(), plan_with).plan.peak_bytes;
}

double expected_step_seconds(const Plan& plan, const Device& device, DType dtype) {
  return step_seconds(plan, rates_to_choose_by(device, dtype));
}

}  // namespace snug
