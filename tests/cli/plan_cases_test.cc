// What people who ran out of memory are told: recipes of real cases, planned for their cards.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/run_snug.h"

namespace snug {
namespace {

Json plan_of(const std::string& name) {
  return json_output(run_snug({"plan", source_path("recipes/cases/" + name), "--device", "cuda", "--json"}));
}

// The first alternative whose only change of numerics is `setting`.
Json find_opt_in(const Json& plan, const std::string& setting) {
  for (const Json& alternative : plan["opt_in"]) {
    const Json& settings = alternative["settings"];
    if (std::find(settings.begin(), settings.end(), setting) != settings.end()) {
      return alternative;
    }
  }
  return {};
}

void expect_fits(const std::string& name, const Json& alternative) {
  ASSERT_FALSE(alternative.is_null());
  std::vector<std::string> arguments = {"plan", source_path("recipes/cases/" + name), "--device", "cuda",
                                        "--json"};
  for (const Json& setting : alternative["settings"]) {
    arguments.insert(arguments.end(), {"--set", setting.get<std::string>()});
  }
  CommandResult result = run_snug(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(json_output(result)["peak_bytes"], alternative["peak_bytes"]);
}

// Case 1 as it was written: the plan that is chosen fits, and the recipe stays as it is.
TEST(PlanCases, QwenWithLoraFitsAsItIs) {
  Json plan = plan_of("parsing.yml");
  EXPECT_EQ(plan["fits"], true);
  EXPECT_LE(plan["peak_bytes"].get<int64_t>(), 25'383'256'719) << "23.64 GiB";
  EXPECT_TRUE(plan["chosen"]["memory.recompute"][0].contains("layers")) << "by ranges of layers";
  int64_t tokens = plan["chosen"]["memory.micro_batch_tokens"];
  EXPECT_TRUE(tokens == 2048 || tokens == 4096) << "no more than 2 sequences of 2048";
  // Where recomputation is switched off by hand, that is what is to be changed.
  CommandResult kept = run_snug({"plan", source_path("recipes/cases/parsing.yml"), "--device", "cuda",
                                 "--json", "--set", "memory.recompute=none"});
  EXPECT_EQ(kept.exit_code, 3);
  EXPECT_EQ(json_output(kept)["alternatives"][0]["settings"], Json({"memory.recompute=auto"}));
  EXPECT_EQ(json_output(kept)["alternatives"][0]["peak_bytes"], plan["peak_bytes"]);
}

// Case 2: weights, gradients and fp32 states alone are more than the card; bf16 states make it fit.
TEST(PlanCases, FlanT5IsToldOfBf16States) {
  Json plan = plan_of("recipe_writing.yml");
  EXPECT_TRUE(plan["alternatives"].empty());
  Json found = find_opt_in(plan, "training.optimizer_states=bf16");
  expect_fits("recipe_writing.yml", found);
  EXPECT_FALSE(found["changes"].empty());
  for (const Json& setting : found["settings"]) {
    EXPECT_EQ(setting.get<std::string>().find("eval"), std::string::npos) << setting;
  }
}

// Its owner divided by 8 twice, and expected 25 to 40 hours: at the 3 to 5 micro-batches a second that he
// wanted, it is 208 to 347.
TEST(PlanCases, FlanT5IsToldOfItsSteps) {
  const std::string recipe = source_path("recipes/cases/recipe_writing.yml");
  std::vector<std::string> arguments = {"plan",    recipe,
                                        "--gpu",   "5090",
                                        "--rows",  "6000000",
                                        "--price", "0.80 EUR",
                                        "--set",   "training.optimizer_states=bf16",
                                        "--set",   "memory.micro_batch_tokens=2048"};
  CommandResult text = run_snug(arguments);
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_NE(
      text.output.find("6,000,000 rows an epoch, 128 (8 x 16) a step: 46,875 steps of 16 micro-batches; 5 "
                       "epochs: 234,375 steps"),
      std::string::npos)
      << text.output;
  arguments.emplace_back("--json");
  Json run = json_output(run_snug(arguments))["run"];
  EXPECT_EQ(run["micro_batches_per_epoch"], 750'000);
  EXPECT_EQ(run["steps"], 234'375);
  double hours = run["hours"];
  EXPECT_NEAR(hours, 234'375 * run["step_seconds"].get<double>() / 3600, 1e-9 * hours);
  EXPECT_NEAR(run["cost"].get<double>(), 0.8 * hours, 1e-9 * hours);
  EXPECT_EQ(run["hours_include_evaluations"], false);
  // As it was written it has no room, and so no hours; the steps are told all the same.
  Json written = json_output(run_snug({"plan", recipe, "--gpu", "5090", "--rows", "6000000", "--json"}));
  EXPECT_EQ(written["run"]["steps"], 234'375);
  EXPECT_TRUE(written["run"]["hours"].is_null());
  EXPECT_EQ(run_snug({"plan", recipe, "--gpu", "5090", "--price", "free"}).exit_code, 2);
}

// 8-bit states make it fit with less recomputation, and the plan counts them tensor by tensor: norms and
// biases of positions are too small for codes.
TEST(PlanCases, FlanT5IsToldOf8bitStates) {
  Json found = find_opt_in(plan_of("recipe_writing.yml"), "training.optimizer_states=8bit");
  expect_fits("recipe_writing.yml", found);
  EXPECT_NE(found["changes"][0].get<std::string>().find("8 bits"), std::string::npos);
  Json plan = json_output(run_snug({"plan", source_path("recipes/cases/recipe_writing.yml"), "--device",
                                    "cuda", "--json", "--set", "training.optimizer_states=8bit"}));
  constexpr int64_t kParameters = 2'849'757'184;
  constexpr int64_t kSmall = 122 * 2048 + 2 * 32 * 32;  // 122 norms, and a table of biases in either stack
  constexpr int64_t kCoded = kParameters - kSmall;
  constexpr int64_t kClock = 256;  // padded
  EXPECT_EQ(plan["roles"]["optimizer states"], 2 * kCoded + 8 * kSmall + kClock);
  EXPECT_EQ(plan["roles"]["state scales"], 2 * kCoded / 256 * 4);
  EXPECT_EQ(plan["roles"]["state maps"], 2 * 256 * 4);
  EXPECT_FALSE(plan["roles"].contains("fp32 master bits"));
}

// Adafactor keeps a number for each row and each column of a matrix of the file, and for each element of a
// vector.
TEST(PlanCases, AdafactorKeepsRowsAndColumns) {
  Json plan = json_output(
      run_snug({"plan", source_path("recipes/cases/recipe_writing.yml"), "--device", "cuda", "--json",
                "--set", "training.optim=adafactor", "--set", "training.optimizer_states=bf16"}));
  constexpr int64_t kSquare = 2048 + 2048;  // q, k, v and o
  constexpr int64_t kWide = 5120 + 2048;    // wi_0, wi_1 and wo
  constexpr int64_t kEncoder = 24 * (4 * kSquare + 3 * kWide);
  constexpr int64_t kDecoder = 24 * (8 * kSquare + 3 * kWide);
  constexpr int64_t kTables = 2 * (32128 + 2048) + 2 * (32 + 32);  // embedding and head, biases of positions
  constexpr int64_t kNorms = 122 * 2048;
  constexpr int64_t kClock = 256;  // padded
  EXPECT_EQ(plan["roles"]["optimizer states"], 4 * (kEncoder + kDecoder + kTables + kNorms) + kClock);
  EXPECT_FALSE(plan["roles"].contains("fp32 master bits"));
}

// Case 4: 27.6 GB of fp32 weights never fit; bf16 does. The recipe does not evaluate, so no phase does.
TEST(PlanCases, DeepSeekIsToldOfBf16) {
  Json plan = plan_of("compliance.yml");
  EXPECT_TRUE(plan["alternatives"].empty());
  expect_fits("compliance.yml", find_opt_in(plan, "model.dtype=bf16"));
  EXPECT_TRUE(plan["evaluation_sequences"].is_null());
  for (const Json& phase : plan["phases"]) {
    EXPECT_NE(phase["name"], "evaluate");
  }
}

}  // namespace
}  // namespace snug
