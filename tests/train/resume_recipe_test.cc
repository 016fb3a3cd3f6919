// A run that goes on by the choices of its checkpoint, whatever rates a card has by then.
#include <gtest/gtest.h>

#include "fit/choice.h"
#include "support/rated_backend.h"
#include "support/small_llama.h"
#include "train/checkpoint.h"

namespace snug {
namespace {

TEST(ResumeRecipe, HasTheChoicesOfTheCheckpoint) {
  ModelSpec spec = small_llama(4);
  Recipe asked = small_recipe();
  asked.data.train_file = {{.path = "/train.jsonl"}};
  asked.data.eval_file.clear();
  asked.training.per_device_train_batch_size = 4;
  RatedBackend before(1e9);
  RatedBackend now(2e7);  // measured again, and slower
  int64_t kept_bytes = choose_plan(asked, spec, before).plan.peak_bytes();
  bool differs = false;
  for (int percent = 50; percent < 100; percent += 5) {
    asked.memory.limit_bytes = kept_bytes * percent / 100;
    FittedRecipe begun = choose_plan(asked, spec, before);
    FittedRecipe fresh = choose_plan(asked, spec, now);
    differs = differs || fresh.recipe.memory.recompute != begun.recipe.memory.recompute ||
              fresh.recipe.memory.micro_batch_tokens != begun.recipe.memory.micro_batch_tokens;
    ResumePoint point;
    point.recipe = begun.recipe;
    FittedRecipe goes_on = choose_plan(recipe_to_go_on(asked, point), spec, now);
    EXPECT_EQ(goes_on.recipe.memory.recompute, begun.recipe.memory.recompute) << percent;
    EXPECT_EQ(goes_on.recipe.memory.micro_batch_tokens, begun.recipe.memory.micro_batch_tokens) << percent;
    EXPECT_EQ(goes_on.recipe.memory.loss_chunk_tokens, begun.recipe.memory.loss_chunk_tokens) << percent;
    EXPECT_EQ(goes_on.plan.peak_bytes(), begun.plan.peak_bytes()) << percent;
  }
  EXPECT_TRUE(differs) << "else nothing is shown";
}

}  // namespace
}  // namespace snug
