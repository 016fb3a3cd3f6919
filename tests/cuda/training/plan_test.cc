// A plan made without a card is the plan that a card runs.
#include <gtest/gtest.h>

#include "backend/cuda_plan/planned_card.h"
#include "cuda/training/card_fixture.h"
#include "data/batches/limits.h"
#include "data/batches/synthetic.h"
#include "support/curve_case.h"
#include "support/random_recipes.h"
#include "support/small_llama.h"
#include "support/temporary_folder.h"
#include "support/written_bytes.h"

namespace snug {
namespace {

void expect_equal_plans(const Plan& planned, const Plan& real, const std::string& what) {
  EXPECT_EQ(planned.arena_bytes, real.arena_bytes) << what;
  ASSERT_EQ(planned.phases.size(), real.phases.size()) << what;
  for (size_t i = 0; i < real.phases.size(); ++i) {
    EXPECT_EQ(planned.phases[i].offsets, real.phases[i].offsets) << what << ", " << real.phases[i].name();
  }
}

// Planned for, on this machine: how much memory the host has decides whether saving takes a copy of the
// state.
class PlannedHere : public PlannedCard {
 public:
  explicit PlannedHere(const Device& card) : host_bytes_(card.host_available_bytes()) {}
  std::optional<int64_t> host_available_bytes() const override { return host_bytes_; }

 private:
  std::optional<int64_t> host_bytes_;
};

TEST(CudaPlan, IsTheOneMadeWithoutACard) {
  SKIP_WITHOUT_CARD();
  CudaBackend card;
  PlannedHere planned(card);
  for (const char* model : {"Qwen/Qwen2.5-7B-Instruct", "google/flan-t5-base", "Qwen/Qwen3-0.6B",
                            "microsoft/Phi-3-mini-4k-instruct", "mistralai/Mistral-7B-Instruct-v0.3"}) {
    ModelSpec spec = locate_model(model).spec;
    for (DType dtype : {DType::f32, DType::bf16}) {
      for (bool lora : {false, true}) {
        for (Recompute policy : {Recompute::none, Recompute::full}) {
          Recipe recipe = small_recipe();
          recipe.model.path = model;
          recipe.model.dtype = dtype;
          recipe.data.max_length = 333;
          recipe.memory.recompute = {policy};
          if (lora) {
            recipe.lora = LoraSection{.r = 16, .lora_dropout = 0.05};
          }
          expect_equal_plans(plan_training(recipe, spec, planned), plan_training(recipe, spec, card), model);
        }
      }
    }
  }
}

// A card whose memory starts as noise.
class NoisyCard : public CudaBackend {
 public:
  std::byte* allocate_arena(Home home, int64_t bytes) override {
    std::byte* arena = CudaBackend::allocate_arena(home, bytes);
    if (home == Home::device) {
      std::vector<std::byte> start(static_cast<size_t>(bytes));
      for (int64_t i = 0; i < bytes; ++i) {
        start[static_cast<size_t>(i)] = noise(i);
      }
      upload(arena, start.data(), bytes);
      synchronize();
      device_ = arena;
    }
    return arena;
  }

  std::vector<bool> written() {
    std::vector<std::byte> now(static_cast<size_t>(allocated_bytes(Home::device)));
    download(now.data(), device_, allocated_bytes(Home::device));
    std::vector<bool> marks(now.size());
    for (size_t i = 0; i < now.size(); ++i) {
      marks[i] = now[i] != noise(static_cast<int64_t>(i));
    }
    return marks;
  }

 private:
  std::byte* device_ = nullptr;
};

// The arena is taken, and every buffer written, by kernels that write nothing else.
TEST(CudaPlan, IsWhatACardAllocatesAndWrites) {
  SKIP_WITHOUT_CARD();
  for (const std::string& name : reference_cases_with("curve.json")) {
    Recipe recipe = curve_recipe(name);
    recipe.model.dtype = DType::bf16;
    FixtureOn<NoisyCard> fixture(recipe, {});
    Plan planned = plan_training(recipe, fixture.spec, PlannedCard());
    EXPECT_EQ(fixture.backend.allocated_bytes(Home::device), planned.device_bytes()) << name;
    bool has_encoder = fixture.spec.has_encoder();
    SyntheticShape one{.sequences = 1,
                       .length_tokens = decoder_length(recipe, has_encoder),
                       .vocabulary = fixture.spec.vocabulary,
                       .source_tokens = has_encoder ? recipe.data.max_length : 0};
    SyntheticShape batch = one;
    batch.sequences = recipe.training.per_device_train_batch_size.value();
    SyntheticShape many = one;  // as many sequences as a batch may have, all of them short
    many.length_tokens = 2;     // one alone would teach nothing
    many.source_tokens = has_encoder ? 1 : 0;
    many.sequences = planned_batch(fixture.plan, kTrainPhase).sequences;
    fixture.runner.run_step({random_batch(batch, 1), random_batch(many, 2)}, 0, 10);
    int64_t evaluated = fixture.plan.evaluated_sequences.value_or(0);
    std::vector<Example> examples;
    for (int64_t i = 0; i < evaluated; ++i) {
      examples.push_back(random_example(one, static_cast<uint64_t>(i)));
    }
    if (evaluated > 0) {
      BatchLimits most = planned_batch(fixture.plan, kEvaluatePhase);
      fixture.runner.evaluate(make_dataset(examples), most);
      std::vector<Example> short_ones(static_cast<size_t>(most.sequences), random_example(many, 1));
      fixture.runner.evaluate(make_dataset(short_ones), most);
    }
    EXPECT_EQ(differences_from(fixture.plan, fixture.backend.written()), std::vector<std::string>()) << name;
  }
}

// Whatever the recipe: what is planned is allocated, written and all that the driver counts beside its
// context.
TEST(CudaPlan, IsWhatFortyRandomRecipesUse) {
  SKIP_WITHOUT_CARD();
  Rng rng(1);
  for (int round = 0; round < 40; ++round) {
    TemporaryFolder folder;
    write_config(folder.path(), random_shape(rng));
    Recipe recipe = random_recipe(rng, folder.path());
    if (recipe.model.dtype == DType::bf16 && recipe.training.gradient_dtype == DType::f32 &&
        rng.below(2) == 0) {
      recipe.model.dtype = DType::f16;
    }
    FixtureOn<NoisyCard> fixture(recipe, {});
    int64_t planned = plan_training(recipe, fixture.spec, PlannedCard()).device_bytes();
    EXPECT_EQ(fixture.backend.allocated_bytes(Home::device), planned) << "round " << round;
    run_all_phases(fixture, folder.path());
    EXPECT_EQ(fixture.backend.allocated_bytes(Home::device), planned) << "round " << round;
    EXPECT_EQ(differences_from(fixture.plan, fixture.backend.written()), std::vector<std::string>())
        << "round " << round;
    EXPECT_LE(fixture.backend.driver_bytes(), fixture.plan.peak_bytes()) << "round " << round;
  }
}

// The driver has no other count than the plan: the arena and what it keeps for itself, however long the run.
TEST(CudaPlan, IsWhatTheDriverCounts) {
  SKIP_WITHOUT_CARD();
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  CardFixture fixture(recipe);
  auto run_steps = [&](int64_t first, int64_t last) {
    for (int64_t step = first; step < last; ++step) {
      Batch batch = random_batch({1, recipe.data.max_length, fixture.spec.vocabulary}, 1);
      fixture.runner.run_step({batch}, step, 20);
    }
  };
  run_steps(0, 5);  // until everything has run once and the graphs are recorded
  int64_t early = fixture.backend.driver_bytes();
  if (early == 0) {  // some containers hide it; where a card is required, nothing is skipped
    ASSERT_FALSE(card_is_required()) << "the driver tells nothing";
    GTEST_SKIP() << "the driver tells nothing";
  }
  EXPECT_GE(early, fixture.plan.device_bytes());
  EXPECT_LE(early, fixture.plan.peak_bytes());
  run_steps(5, 20);
  EXPECT_EQ(fixture.backend.driver_bytes(), early);
}

}  // namespace
}  // namespace snug
