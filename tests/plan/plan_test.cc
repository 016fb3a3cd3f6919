// Plans of Llama programs: no overlap, little placement loss, stable persistent places, a peak with a name.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/rng.h"
#include "compile/phases.h"
#include "plan/plan_json.h"
#include "plan/training.h"
#include "support/small_llama.h"

namespace snug {
namespace {

// Lifetimes recounted here, from the ops alone.
std::vector<std::pair<int, int>> uses_of(const Program& program) {
  std::vector<std::pair<int, int>> uses(program.buffers.size(), {-1, -1});
  int last_op = std::max(0, static_cast<int>(program.ops.size()) - 1);
  for (int index = 0; index < static_cast<int>(program.ops.size()); ++index) {
    const Op& op = program.ops[static_cast<size_t>(index)];
    std::vector<BufferId> touched = op.inputs;
    touched.insert(touched.end(), op.outputs.begin(), op.outputs.end());
    touched.push_back(op.workspace);
    for (BufferId id : touched) {
      if (id != kNoBuffer) {
        auto& use = uses[static_cast<size_t>(id)];
        use.first = use.first < 0 ? index : use.first;
        use.second = index;
      }
    }
  }
  for (size_t id = 0; id < uses.size(); ++id) {
    Lifetime lifetime = program.buffers[id].lifetime;
    if (lifetime == Lifetime::persistent || lifetime == Lifetime::phase) {
      uses[id] = {0, last_op};
    } else if (lifetime == Lifetime::input) {
      uses[id] = {0, std::max(uses[id].second, 0)};
    } else if (lifetime == Lifetime::output) {
      uses[id].second = last_op;
    }
  }
  return uses;
}

void expect_no_overlap(const PhasePlan& phase) {
  auto uses = uses_of(phase.program);
  const auto& buffers = phase.program.buffers;
  for (size_t a = 0; a < buffers.size(); ++a) {
    for (size_t b = a + 1; b < buffers.size(); ++b) {
      if (uses[a].first < 0 || uses[b].first < 0 || buffers[a].home != buffers[b].home) {
        continue;
      }
      // An in-place op hands its input's memory to its output: they meet at one op only.
      bool hand_over = uses[a].second == uses[b].first || uses[b].second == uses[a].first;
      bool together = uses[a].first <= uses[b].second && uses[b].first <= uses[a].second;
      int64_t end_a = phase.offsets[a] + buffers[a].max_bytes();
      int64_t end_b = phase.offsets[b] + buffers[b].max_bytes();
      bool overlap = phase.offsets[a] < end_b && phase.offsets[b] < end_a;
      bool taken_over = hand_over && phase.offsets[a] == phase.offsets[b];
      ASSERT_TRUE(!together || !overlap || taken_over)
          << phase.name() << ": " << buffers[a].name << " and " << buffers[b].name;
    }
  }
}

TEST(Plan, BuffersThatLiveTogetherNeverOverlap) {
  CpuBackend backend;
  for (bool lora : {false, true}) {
    for (Recompute policy : {Recompute::none, Recompute::selective, Recompute::full}) {
      Recipe recipe = small_recipe();
      recipe.memory.recompute = {policy};
      if (lora) {
        recipe.lora = LoraSection{.r = 4, .lora_dropout = 0.1};
      }
      Plan plan = plan_training(recipe, small_llama(), backend);
      for (const PhasePlan& phase : plan.phases) {
        expect_no_overlap(phase);
        for (size_t id = 0; id < phase.offsets.size(); ++id) {
          const Buffer& buffer = phase.program.buffers[id];
          int64_t arena = plan.arena_bytes[static_cast<size_t>(buffer.home)];
          ASSERT_LE(phase.offsets[id] + buffer.max_bytes(), arena) << buffer.name;
        }
      }
    }
  }
}

// Each buffer alone could be counted, all of them together cannot.
TEST(Plan, RunsThatNobodyCanCountAreRefused) {
  CpuBackend backend;
  ModelSpec spec = small_llama();
  spec.width = 1 << 24;
  spec.decoder = repeat(usual_layer(4, 2, 6, 1 << 24), 400);
  Recipe recipe = small_recipe();
  EXPECT_THROW(plan_training(recipe, spec, backend), Error);
  spec = small_llama();
  spec.width = 1 << 20;
  spec.max_positions = recipe.data.max_length = 1 << 24;
  recipe.training.per_device_train_batch_size = 1 << 16;
  EXPECT_THROW(plan_training(recipe, spec, backend), Error);
}

TEST(Plan, PositionsLimitTheLengthUnlessTheRecipeSaysOtherwise) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  ModelSpec spec = small_llama();
  recipe.data.max_length = spec.max_positions + 1;
  EXPECT_THROW(plan_training(recipe, spec, backend), Error);
  EXPECT_NE(positions_warning(recipe, spec), "");
  recipe.model.max_positions = spec.max_positions + 1;
  EXPECT_NO_THROW(plan_training(recipe, spec, backend));
  recipe.data.max_length = spec.max_positions;
  EXPECT_EQ(positions_warning(recipe, spec), "");
}

TEST(Plan, PlacementLossIsAtMostOnePercentOnLlamas) {
  CpuBackend backend;
  for (const ModelSpec& spec : {small_llama(), deepseek_7b()}) {
    for (Recompute policy : {Recompute::none, Recompute::selective, Recompute::full}) {
      for (bool lora : {false, true}) {
        Recipe recipe = small_recipe();
        recipe.data.max_length = spec.max_positions / 2;
        recipe.memory.recompute = {policy};
        if (lora) {
          recipe.lora = LoraSection{.r = 8};
        }
        Plan plan = plan_training(recipe, spec, backend);
        for (const PhasePlan& phase : plan.phases) {
          double loss = static_cast<double>(phase.device().peak_bytes - phase.device().lower_bound_bytes);
          EXPECT_LE(loss, 0.01 * static_cast<double>(phase.device().lower_bound_bytes))
              << phase.name() << ", " << spec.all_layers() << " layers, lora " << lora << ", policy "
              << policy.kept.bits;
        }
      }
    }
  }
}

TEST(Plan, PersistentBuffersStayInPlaceAcrossPhases) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  recipe.lora = LoraSection{};
  Plan plan = plan_training(recipe, small_llama(), backend);
  std::map<std::string, int64_t> places;
  for (const PhasePlan& phase : plan.phases) {
    for (size_t id = 0; id < phase.program.buffers.size(); ++id) {
      const Buffer& buffer = phase.program.buffers[id];
      if (buffer.lifetime == Lifetime::persistent) {
        auto [known, is_new] = places.try_emplace(buffer.name, phase.offsets[id]);
        EXPECT_EQ(known->second, phase.offsets[id]) << buffer.name << " in " << phase.name();
      }
    }
  }
  EXPECT_GT(places.size(), 30U);
}

TEST(Plan, RolesAndLossAddUpToThePeak) {
  CpuBackend backend;
  Plan plan = plan_training(small_recipe(), small_llama(), backend);
  for (const PhasePlan& phase : plan.phases) {
    int64_t sum =
        std::accumulate(phase.role_bytes.begin(), phase.role_bytes.end(), phase.placement_loss_bytes);
    EXPECT_EQ(sum, phase.device().peak_bytes) << phase.name();
    EXPECT_GE(phase.placement_loss_bytes, 0);
  }
  EXPECT_FALSE(plan.largest_phase().peak_op.empty());
}

TEST(Plan, RecomputationTakesLessMemory) {
  CpuBackend backend;
  auto peak = [&](Recompute policy) {
    Recipe recipe = small_recipe();
    recipe.data.max_length = 60;
    recipe.lora = LoraSection{};
    recipe.memory.recompute = {policy};
    return plan_training(recipe, small_llama(12), backend).peak_bytes();
  };
  EXPECT_LT(peak(Recompute::selective), peak(Recompute::none));
  EXPECT_LT(peak(Recompute::full), peak(Recompute::selective));
}

TEST(Plan, CountsParametersExactly) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  recipe.model.dtype = DType::bf16;
  recipe.lora = LoraSection{.r = 8};
  Plan plan = plan_training(recipe, deepseek_7b(), backend);
  EXPECT_EQ(plan.parameters, 6'910'365'696);
  EXPECT_EQ(plan.trainable_parameters, 18'739'200);
}

TEST(Plan, JsonHasItsKeys) {
  CpuBackend backend;
  Json json = plan_to_json(plan_training(small_recipe(), small_llama(), backend));
  for (const char* key : {"fits", "peak_bytes", "limit_bytes", "phases", "roles", "trainable_parameters",
                          "parameters", "peak_op", "host_bytes", "saving"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["phases"].size(), 5U);
}

}  // namespace
}  // namespace snug
