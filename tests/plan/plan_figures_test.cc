// A plan in figures: the same from a plan and from its file.
#include "plan/plan_figures.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "plan/plan_json.h"
#include "plan/training.h"
#include "support/small_llama.h"

namespace snug {
namespace {

Plan small_plan() {
  static CpuBackend backend;
  Recipe recipe = small_recipe();
  recipe.lora = LoraSection{};
  return plan_training(recipe, small_llama(), backend);
}

TEST(PlanFigures, NameTheBuffersAtThePeakAlsoWhenReadFromAFile) {
  Plan plan = small_plan();
  PlanFigures made = figures_of(plan);
  EXPECT_FALSE(made.buffers.empty());
  PlanFigures read = read_plan_figures(parse_json(plan_file(plan), "plan.json"), "plan.json");
  EXPECT_EQ(read.buffers, made.buffers);
  // The plan counts roles by itself.
  for (const auto& [role, buffers] : made.buffers) {
    int64_t sum = 0;
    for (const auto& [name, bytes] : buffers) {
      sum += bytes;
    }
    EXPECT_EQ(sum, made.roles.at(role)) << role;
  }
}

TEST(PlanFigures, RefuseAFileWhoseBuffersOverlap) {
  Json json = parse_json(plan_file(small_plan()), "plan.json");
  for (Json& phase : json["layout"]["phases"]) {
    for (Json& buffer : phase["buffers"]) {
      buffer["offset"] = 0;
    }
  }
  try {
    read_plan_figures(json, "plan.json");
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("hold bytes in one place at once"), std::string::npos);
  }
}

}  // namespace
}  // namespace snug
