// Tables of stages.
#include "report/stages_report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "report/layout.h"

namespace snug {
namespace {

Json summary(const std::vector<std::pair<int64_t, std::map<std::string, double>>>& evaluations) {
  Json rows = Json::array();
  for (const auto& [step, losses] : evaluations) {
    Json row = {{"step", step}};
    for (const auto& [set, loss] : losses) {
      row["eval_" + set + "_loss"] = loss;
    }
    rows.push_back(row);
  }
  return {{"evaluations", rows}, {"best_step", 10}};
}

Recipe stage(const std::string& name) {
  Recipe recipe;
  recipe.stage.name = name;
  recipe.data.eval_file = {name + ".jsonl"};
  return recipe;
}

// By hand, from losses that are written down here.
TEST(ForgettingReport, SaysWhatWasLearnedAndForgotten) {
  std::vector<Recipe> stages = {stage("it"), stage("security")};
  std::vector<Json> summaries = {summary({{0, {{"it", 3.0}}}, {20, {{"it", 1.0}}}}),
                                 summary({{0, {{"security", 2.5}, {"it", 1.0}}},
                                          {10, {{"security", 0.5}, {"it", 1.75}}},
                                          {20, {{"security", 0.75}, {"it", 1.5}}}})};
  EXPECT_EQ(forgetting_report(make_forgetting(stages, summaries), Style(false)),
            "\n"
            "  loss on    before   after it   after security   learned   forgotten\n"
            "  it         3.0000     1.0000           1.5000    2.0000      0.5000\n"
            "  security   2.5000          ·           0.7500    1.7500           ·\n");
  // Where the best is the result, its evaluation counts.
  stages[1].training.load_best_model_at_end = true;
  Forgetting best = make_forgetting(stages, summaries);
  EXPECT_EQ(best.sets[0].after[1], 1.75);
  EXPECT_EQ(best.sets[1].after[1], 0.5);
  // A run that was stopped has a table of what is done.
  Forgetting part = make_forgetting(stages, {summaries[0]});
  ASSERT_EQ(part.sets.size(), 1U);
  EXPECT_FALSE(part.sets[0].forgotten().has_value());
}

TEST(ForgettingReport, IsNoWiderThanTheScreen) {
  std::vector<Recipe> stages = {stage("general-it"), stage("cybersecurity"), stage("governance-and-risk")};
  std::vector<Json> summaries(3, summary({{0, {}}, {10, {{"general-it", 1.0}}}}));
  for (size_t columns : {60U, 80U, 120U}) {
    std::istringstream lines(forgetting_report(make_forgetting(stages, summaries), Style(false, columns)));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(display_width(line), columns) << line;
    }
  }
}

}  // namespace
}  // namespace snug
