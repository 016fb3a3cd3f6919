// What fit changes, against every change there is.
#include "fit/fitted_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "recipe/effective_batch.h"
#include "recipe/parse.h"
#include "support/rated_backend.h"
#include "support/small_llama.h"

namespace snug {
namespace {

constexpr std::string_view kRecipe =
    "model: {path: small_llama, dtype: fp32}\n"
    "lora: {r: 8}\n"
    "data: {train_file: a.jsonl, max_length: 32}\n"
    "training: {per_device_train_batch_size: 4}\n";

class FitRun : public testing::Test {
 protected:
  static constexpr int64_t kLayers = 3;

  static std::vector<Recipe> read(std::string_view text, const std::vector<std::string>& settings) {
    return parse_recipes(text, "recipe.yml", settings);
  }

  FittedRun fit(int64_t limit_bytes, const std::vector<std::string>& settings = {},
                const std::set<std::string, std::less<>>& allowed = {},
                std::string_view text = kRecipe) const {
    FitRequest request;
    request.read = [=](const std::vector<std::string>& more) {
      std::vector<std::string> all = settings;
      all.insert(all.end(), more.begin(), more.end());
      all.push_back("memory.limit=" + std::to_string(limit_bytes));
      return read(text, all);
    };
    request.limits = [](const std::vector<Recipe>& stages) { return std::vector<LimitsOf>(stages.size()); };
    request.allowed = allowed;
    return fit_run(request, spec_, backend_);
  }

  PlanCost cost_of(const Recipe& recipe) const { return plan_cost(recipe, spec_, backend_); }

  // Every micro-batch of whole sequences that is a half of the one before, every number of layers that
  // recompute everything and that recompute what is cheap behind them, both sizes of the loss's chunks.
  std::vector<PlanCost> all_choices(const Recipe& recipe) const {
    std::vector<PlanCost> all;
    for (int64_t tokens = 4 * recipe.data.max_length; tokens >= recipe.data.max_length; tokens /= 2) {
      for (int64_t full = 0; full <= kLayers; ++full) {
        for (int64_t selective = 0; selective <= kLayers - full; ++selective) {
          for (int64_t chunk : {0, 128}) {
            Recipe one = recipe;
            one.memory.micro_batch_tokens = tokens;
            one.memory.loss_chunk_tokens = chunk;
            one.memory.recompute.assign(kLayers, Recompute::none);
            std::fill_n(one.memory.recompute.begin(), full, Recompute::full);
            std::fill_n(one.memory.recompute.begin() + full, selective, Recompute::selective);
            all.push_back(cost_of(one));
          }
        }
      }
    }
    return all;
  }

  RatedBackend backend_;
  ModelSpec spec_ = small_llama(kLayers);
};

// Whatever is written by hand: if it does not fit, the fastest of all that does is found, and what the
// changes save and cost adds up.
TEST_F(FitRun, IsTheFastestOfTheSameExperiment) {
  Recipe asked = read(kRecipe, {}).front();
  std::vector<PlanCost> all = all_choices(asked);
  int64_t low = least_bytes(all);
  int64_t high = cost_of(asked).peak_bytes;
  const std::vector<std::string> kByHand = {"memory.recompute=none", "memory.micro_batch_tokens=128"};
  for (const std::vector<std::string>& settings : {std::vector<std::string>(), kByHand}) {
    for (int i = 0; i <= 6; ++i) {
      int64_t limit = low + (high - low) * i / 6;
      FittedRun run = fit(limit, settings);
      ASSERT_TRUE(run.fits()) << i;
      const FittedStage& stage = run.stages.front();
      PlanCost found = cost_of(stage.after);
      EXPECT_EQ(found.peak_bytes, stage.plan.peak_bytes()) << "the recipe holds what was chosen";
      EXPECT_LE(found.peak_bytes, limit);
      EXPECT_LE(found.seconds, fastest(all, limit) * (1 + 1e-9)) << i << ", " << settings.size();
      EXPECT_EQ(stage.changes.empty(), limit >= high);
      auto saved = [](int64_t sum, const FitChange& change) { return sum + change.saved_bytes; };
      EXPECT_EQ(std::accumulate(stage.changes.begin(), stage.changes.end(), int64_t{0}, saved),
                high - found.peak_bytes);
      EXPECT_EQ(stage.before_bytes, high);
      EXPECT_EQ(effective_batch(stage.after.training), 4);
      EXPECT_EQ(stage.after.data.max_length, 32);
      EXPECT_EQ(stage.after.lora->r, 8);
      EXPECT_EQ(stage.after.training.optimizer_states, OptimizerStates::fp32);
      EXPECT_EQ(stage.after.model.quantization, Quantization::none);
    }
    FittedRun run = fit(low - 1, settings);
    EXPECT_FALSE(run.fits());
    ASSERT_TRUE(run.stages.front().offers.has_value());
    EXPECT_EQ(run.stages.front().offers->least_bytes, low);
    EXPECT_TRUE(run.settings.empty());
  }
}

// Without leave nothing of the kind is changed; with it, as little as suffices.
TEST_F(FitRun, TakesTheSmallestOptInThatIsAllowed) {
  Recipe asked = read(kRecipe, {}).front();
  int64_t free_bytes = least_bytes(all_choices(asked));
  Recipe narrow = asked;
  narrow.training.optimizer_states = OptimizerStates::bf16;
  int64_t narrow_bytes = least_bytes(all_choices(narrow));
  ASSERT_LT(narrow_bytes, free_bytes);
  FittedRun refused = fit(narrow_bytes);
  EXPECT_FALSE(refused.fits());
  EXPECT_EQ(refused.stages.front().offers->opt_in.front().settings.back(), "training.optimizer_states=bf16");
  EXPECT_FALSE(fit(narrow_bytes, {}, {"data.max_target_length"}).fits()) << "that is of no use here";
  FittedRun taken = fit(narrow_bytes, {}, {"training.optimizer_states", "lora.r"});
  ASSERT_TRUE(taken.fits());
  EXPECT_EQ(taken.stages.front().after.training.optimizer_states, OptimizerStates::bf16);
  EXPECT_EQ(taken.stages.front().after.lora->r, 8) << "an opt-in suffices";
  EXPECT_EQ(taken.stages.front().changes.back().sameness, Sameness::numerics);
}

TEST_F(FitRun, ChangesTheExperimentAsLittleAsSuffices) {
  spec_.max_positions = 1024;
  std::vector<std::string> longer = {"data.max_length=512", "training.per_device_train_batch_size=1"};
  auto least_at = [&](const std::string& setting) {
    std::vector<std::string> settings = longer;
    settings.push_back(setting);
    Recipe recipe = read(kRecipe, settings).front();
    return least_bytes(all_choices(recipe));
  };
  int64_t limit = least_at("data.max_length=320");
  FittedRun refused = fit(limit, longer);
  EXPECT_FALSE(refused.fits());
  FittedRun taken = fit(limit, longer, {"data.max_length"});
  ASSERT_TRUE(taken.fits());
  EXPECT_EQ(taken.stages.front().after.data.max_length, 320) << "the longest that fits, in steps of 64";
  EXPECT_EQ(fit(limit - 1, longer, {"data.max_length"}).stages.front().after.data.max_length, 256);
  EXPECT_EQ(taken.stages.front().changes.back().sameness, Sameness::experiment);
}

// A key of the whole run is changed for all stages, others for the stage that needs it.
TEST_F(FitRun, StagesAreFittedAtOnce) {
  constexpr std::string_view kStages =
      "model: {path: small_llama, dtype: fp32}\n"
      "lora: {r: 8}\n"
      "data: {max_length: 32}\n"
      "training: {per_device_train_batch_size: 1}\n"
      "stages:\n"
      "  - {name: small, data: {train_file: a.jsonl}}\n"
      "  - {name: large, start: stack, data: {train_file: b.jsonl, max_length: 64}}\n";
  std::vector<Recipe> stages = read(kStages, {});
  int64_t small = cost_of(stages[0]).peak_bytes;
  int64_t large = cost_of(stages[1]).peak_bytes;
  ASSERT_LT(small, large);
  FittedRun run = fit(large - 1, {}, {}, kStages);
  ASSERT_TRUE(run.fits());
  EXPECT_TRUE(run.stages[0].changes.empty());
  ASSERT_EQ(run.settings.size(), 1U);
  EXPECT_TRUE(run.settings[0].starts_with("stages.large.memory.")) << run.settings[0];
  Recipe coded = stages[1];
  coded.model.quantization = Quantization::nf4_double;
  coded.memory.recompute = {Recompute::full};
  int64_t coded_bytes = std::max(cost_of(coded).peak_bytes, least_bytes(all_choices(coded)));
  FittedRun four_bits = fit(coded_bytes, {}, {"model.quantization"}, kStages);
  ASSERT_TRUE(four_bits.fits());
  for (const FittedStage& stage : four_bits.stages) {
    EXPECT_NE(stage.after.model.quantization, Quantization::none);
  }
}

}  // namespace
}  // namespace snug
