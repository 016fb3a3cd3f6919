// Layouts: complete, the same after a file, and verified by themselves.
#include "plan/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "plan/plan_json.h"
#include "plan/training.h"
#include "support/small_llama.h"

namespace snug {
namespace {

Plan small_plan(bool lora, Recompute policy) {
  static CpuBackend backend;
  Recipe recipe = small_recipe();
  if (lora) {
    recipe.lora = LoraSection{};
  }
  recipe.memory.recompute = {policy};
  return plan_training(recipe, small_llama(), backend);
}

TEST(Layout, HoldsEveryBufferAndComesBackFromItsFile) {
  for (bool lora : {false, true}) {
    for (Recompute policy : {Recompute::none, Recompute::selective, Recompute::full}) {
      Plan plan = small_plan(lora, policy);
      Layout layout = layout_of(plan);
      EXPECT_EQ(find_layout_problem(layout), "");
      ASSERT_EQ(layout.phases.size(), plan.phases.size());
      for (size_t i = 0; i < plan.phases.size(); ++i) {
        const PhasePlan& phase = plan.phases[i];
        EXPECT_EQ(layout.phases[i].ops.size(), phase.program.ops.size());
        auto placed = std::count_if(phase.offsets.begin(), phase.offsets.end(),
                                    [](int64_t offset) { return offset >= 0; });
        EXPECT_EQ(std::ssize(layout.phases[i].buffers), placed);
      }
      Json read = parse_json(plan_file(plan), "plan.json");
      EXPECT_EQ(layout_from_json(read["layout"], "plan.json"), layout);
      EXPECT_EQ(read["peak_bytes"], plan.peak_bytes());
    }
  }
}

// Counted here op by op: what persists, and the most that is live beside it, is the plan's lower bound.
TEST(Layout, IsLiveAsThePlanCounts) {
  Plan plan = small_plan(true, Recompute::none);
  Layout layout = layout_of(plan);
  for (size_t i = 0; i < layout.phases.size(); ++i) {
    const PhaseLayout& phase = layout.phases[i];
    int64_t most = 0;
    for (int op = 0; op < std::max(1, static_cast<int>(phase.ops.size())); ++op) {
      std::set<std::pair<int64_t, int64_t>> places;  // what an op takes over counts once
      for (const PlacedBuffer& buffer : phase.buffers) {
        bool is_live = buffer.first_op <= op && op <= buffer.last_op;
        if (buffer.home == Home::device && !buffer.persists && is_live) {
          places.emplace(buffer.offset, buffer.bytes);
        }
      }
      int64_t live = 0;
      for (const auto& [offset, bytes] : places) {
        live += bytes;
      }
      most = std::max(most, live);
      EXPECT_EQ(live_bytes(phase)[static_cast<size_t>(op)], live) << phase.name << " " << op;
    }
    EXPECT_EQ(persistent_bytes(layout) + most, plan.phases[i].device().lower_bound_bytes) << phase.name;
  }
}

TEST(Layout, DamageIsFound) {
  Layout whole = layout_of(small_plan(false, Recompute::none));
  auto train = std::find_if(whole.phases.begin(), whole.phases.end(),
                            [](const PhaseLayout& phase) { return phase.name == "train"; });
  ASSERT_NE(train, whole.phases.end());
  auto index = static_cast<size_t>(train - whole.phases.begin());
  for (size_t i = 0; i < whole.phases[index].buffers.size(); ++i) {
    Layout damaged = whole;
    PlacedBuffer& buffer = damaged.phases[index].buffers[i];
    if (buffer.home != Home::device || buffer.bytes == 0) {
      continue;
    }
    buffer.offset = damaged.arena_bytes[0];
    EXPECT_NE(find_layout_problem(damaged), "") << buffer.name;
    buffer.offset = -1;
    EXPECT_NE(find_layout_problem(damaged), "") << buffer.name;
  }
  Layout moved = whole;
  for (PlacedBuffer& buffer : moved.phases[index].buffers) {
    buffer.offset = 0;
  }
  EXPECT_NE(find_layout_problem(moved), "");
  Layout larger = whole;
  larger.arena_bytes[0] += 1;
  EXPECT_NE(find_layout_problem(larger).find("ends at"), std::string::npos);
}

TEST(Layout, AFileThatIsNoneIsRefused) {
  Json good = layout_to_json(layout_of(small_plan(false, Recompute::none)));
  auto refused = [](const Json& json) {
    try {
      layout_from_json(json, "plan.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_EQ(refused(good), "read");
  Json json = good;
  json["phases"][1]["buffers"][0]["role"] = "ballast";
  EXPECT_NE(refused(json).find("ballast"), std::string::npos);
  json = good;
  json["phases"][1]["buffers"][0].erase("offset");
  EXPECT_NE(refused(json).find("offset"), std::string::npos);
  json = good;
  json.erase("phases");
  EXPECT_NE(refused(json).find("phases"), std::string::npos);
}

}  // namespace
}  // namespace snug
