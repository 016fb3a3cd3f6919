// What a card's driver tells stands in the rows of steps, and failures are told to whoever listens.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "model/locate.h"
#include "plan/training.h"
#include "support/reference_case.h"
#include "support/temporary_folder.h"
#include "train/metrics_rows.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace snug {
namespace {

class HotBackend : public CpuBackend {
 public:
  std::optional<CardHealth> health() const override {
    return CardHealth{.celsius = 88, .watts = 310.5, .is_slowed_by_heat = true};
  }
};

class Listener : public RunListener {
 public:
  void on_row(const Json& row) override { rows.push_back(row); }
  void on_card(const CardHealth& health) override { cards.push_back(health); }
  void on_failure(const std::string& text) override { failures.push_back(text); }
  void on_step(const StepMetrics& metrics) override {
    if (metrics.step == fails_at) {
      throw environment_error("the disk is full");
    }
  }

  int64_t fails_at = 0;
  std::vector<Json> rows;
  std::vector<CardHealth> cards;
  std::vector<std::string> failures;
};

void train_on(Backend& backend, Listener& listener) {
  TemporaryFolder folder;
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.model.path = reference_folder("gqa_untied").string();
  recipe.data.train_file = {{"train.jsonl"}};
  recipe.training.max_steps = 3;
  recipe.logging.logging_steps = 1;
  recipe.training.save_strategy = SaveStrategy::no;
  recipe.output_dir = (folder.path() / "run").string();
  LocatedModel model = locate_model_files(recipe.model.path);
  TrainInputs inputs{.recipe = recipe,
                     .model = model,
                     .data = {.train = make_dataset({make_example({3, 1, 4, 1, 5}, 0)}), .eval = {}}};
  Plan plan = plan_training(recipe, model.spec, backend);
  RunFolder run_folder({.folder = recipe.output_dir, .model_folder = model.folder});
  RunEvents events;
  events.listen(listener);
  train(inputs, plan, backend, events, run_folder);
}

TEST(CardRows, HaveWhatTheDriverTells) {
  HotBackend backend;
  Listener listener;
  train_on(backend, listener);
  ASSERT_EQ(listener.rows.size(), 3U);
  EXPECT_FALSE(listener.rows[0].contains("card_celsius")) << "it is asked behind the first step";
  EXPECT_EQ(listener.rows[2]["card_celsius"], 88);
  EXPECT_EQ(listener.rows[2]["card_watts"], 310.5);
  EXPECT_EQ(listener.rows[2]["card_slowed_down"], 1);
  ASSERT_FALSE(listener.cards.empty());
  EXPECT_EQ(listener.cards[0].celsius, 88);
  EXPECT_TRUE(listener.failures.empty());
}

TEST(CardRows, HaveNothingOfADeviceThatTellsNothing) {
  CpuBackend backend;
  Listener listener;
  train_on(backend, listener);
  ASSERT_EQ(listener.rows.size(), 3U);
  for (const Json& row : listener.rows) {
    for (const auto& [name, value] : row.items()) {
      EXPECT_FALSE(name.starts_with("card_")) << name;
    }
  }
}

TEST(RunFailure, IsToldToWhoeverListens) {
  CpuBackend backend;
  Listener listener;
  listener.fails_at = 2;
  EXPECT_THROW(train_on(backend, listener), Error);
  EXPECT_EQ(listener.failures, std::vector<std::string>{"the disk is full"});
}

}  // namespace
}  // namespace snug
