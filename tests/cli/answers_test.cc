// Exact match: evaluations that generate answers.
#include <gtest/gtest.h>

#include "support/four_answers.h"

namespace snug {
namespace {

class ExactMatch : public FourAnswers {
 protected:
  Json summary_of(const std::vector<std::string>& settings) const {
    std::vector<std::string> all = settings;
    all.insert(all.begin(), "training.eval_max_new_tokens=16");
    CommandResult result = train(all, {"--json"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return parse_json(result.output, "summary");
  }
};

// Four answers learned by heart; and the best evaluation is the one that had them all.
TEST_F(ExactMatch, IsOneForAModelThatKnowsTheAnswers) {
  Json summary =
      summary_of({"training.max_steps=60", "training.eval_steps=20",
                  "training.metric_for_best_model=eval_exact_match", "training.save_strategy=best"});
  const Json& evaluations = summary["evaluations"];
  ASSERT_EQ(evaluations.size(), 3U);
  EXPECT_EQ(evaluations.back()["eval_exact_match"], 1.0) << evaluations;
  EXPECT_EQ(evaluations.back()["eval_token_accuracy"], 1.0) << evaluations;
  EXPECT_EQ(evaluations.back()["eval_answers"], 4);
  for (const Json& row : evaluations) {
    EXPECT_LE(row["eval_exact_match"], 1.0);
    EXPECT_TRUE(row["eval_exact_match"] == 1.0 || row["step"] < summary["best_step"]) << evaluations;
  }
  EXPECT_EQ(summary["planned_bytes"], summary["allocated_bytes"]);
}

TEST_F(ExactMatch, IsNothingForOneThatDoesNot) {
  Json summary =
      summary_of({"training.max_steps=1", "training.learning_rate=1e-30", "training.eval_generated_rows=3",
                  "data.eval_file={some: " + path("rows.jsonl") + ", one: " + path("first.jsonl") + "}"});
  const Json& row = summary["evaluations"].back();
  EXPECT_EQ(row["eval_exact_match"], 0.0);
  EXPECT_EQ(row["eval_some_exact_match"], 0.0);
  EXPECT_EQ(row["eval_some_answers"], 3);
  EXPECT_EQ(row["eval_one_answers"], 1);
  EXPECT_EQ(row["eval_answers"], 4);
  EXPECT_LT(row["eval_one_token_accuracy"], 1.0);
}

// Weights in 4 bits; all weights, in packs: each learns the answers by heart, and nothing is taken beside the
// plan.
TEST_F(ExactMatch, OfEveryKindOfRun) {
  const std::vector<std::vector<std::string>> kinds = {
      {"model.quantization=nf4"},
      {"lora=null", "training.learning_rate=1e-3", "data.packing=true"},
  };
  for (std::vector<std::string> settings : kinds) {
    std::string name = settings.front();
    settings.emplace_back("training.max_steps=60");
    Json summary = summary_of(settings);
    EXPECT_EQ(summary["evaluations"].back()["eval_exact_match"], 1.0) << name;
    EXPECT_EQ(summary["planned_bytes"], summary["allocated_bytes"]) << name;
    std::filesystem::remove_all(path("run"));
  }
}

// A small T5 from scratch: what its encoder hands over is in the plan, and takes nothing from training.
TEST_F(ExactMatch, BehindAnEncoder) {
  const std::vector<std::string> settings = small_t5();
  Json summary = summary_of(settings);
  EXPECT_EQ(summary["evaluations"].back()["eval_exact_match"], 1.0);
  EXPECT_EQ(summary["evaluations"].back()["eval_answers"], 4);
  EXPECT_EQ(summary["planned_bytes"], summary["allocated_bytes"]);
  Json plan = read_json(path("run/plan.json"));
  std::filesystem::remove_all(path("run"));
  std::vector<std::string> without = settings;
  without.emplace_back("training.eval_max_new_tokens=0");
  EXPECT_EQ(summary_of(without)["planned_bytes"], summary["planned_bytes"]);
  EXPECT_EQ(read_json(path("run/plan.json"))["phases"].size() + 2, plan["phases"].size());
}

TEST_F(ExactMatch, NeedsRowsThatAsk) {
  write_file_atomically(path("text.jsonl"), "{\"text\": \"The fox has the lantern.\"}\n");
  CommandResult result = train(
      {"data.eval_file=" + path("text.jsonl"), "training.eval_max_new_tokens=16", "training.max_steps=1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("training.eval_max_new_tokens is 16"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("text.jsonl"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace snug
