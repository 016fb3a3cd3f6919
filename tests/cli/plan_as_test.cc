// snug plan --as transformers, --picture and --html.
#include <gtest/gtest.h>

#include <fstream>

#include "support/run_snug.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

TEST(PlanAs, TellsWhatTransformersWouldTakeBesideThePlan) {
  std::vector<std::string> plan = {"plan",  source_path("recipes/ship_log.yml"),  "--gpu", "3090",
                                   "--set", "model.path=Qwen/Qwen2.5-7B-Instruct"};
  auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = plan;
    all.insert(all.end(), more.begin(), more.end());
    return run_snug(all);
  };
  Json json = json_output(with({"--as", "transformers", "--json"}));
  ASSERT_EQ(json["as_transformers"].size(), 5U);
  for (const Json& row : json["as_transformers"]) {
    int64_t sum = 0;
    for (const char* part : {"weights", "states", "gradients", "activations", "loss", "other"}) {
      sum += row[std::string(part) + "_bytes"].get<int64_t>();
    }
    EXPECT_EQ(row["peak_bytes"], sum);
    EXPECT_GE(row["weights_bytes"], 2 * 7'615'616'512);
  }
  CommandResult text = with({"--as", "transformers"});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_NE(text.output.find("gradient checkpointing, loaded in fp32"), std::string::npos) << text.output;
  EXPECT_EQ(with({}).output.find("under transformers"), std::string::npos);
  EXPECT_EQ(with({"--as", "keras"}).exit_code, 2);
}

TEST(PlanPicture, IsDrawnWhereItIsAskedFor) {
  std::string recipe = source_path("recipes/ship_log.yml");
  EXPECT_EQ(run_snug({"plan", recipe}).output.find("dotted"), std::string::npos);
  EXPECT_NE(run_snug({"plan", recipe, "--picture"}, "COLUMNS=80 ").output.find("dotted"), std::string::npos);
}

TEST(PlanAs, OfEachStage) {
  std::vector<std::string> plan = {"plan", source_path("recipes/three_stages.yml"), "--as", "transformers"};
  CommandResult text = run_snug([&] {
    std::vector<std::string> all = plan;
    all.emplace_back("--picture");
    return all;
  }());
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  size_t at = 0;
  for (const char* name : {"stage log", "stage bill", "stage letter"}) {
    for (const std::string& found :
         {std::string(name), std::string("dotted"), std::string("under transformers")}) {
      at = text.output.find(found, at);
      ASSERT_NE(at, std::string::npos) << name << ": " << found << "\n" << text.output;
    }
  }
  plan.emplace_back("--json");
  Json json = json_output(run_snug(plan));
  ASSERT_EQ(json["stages"].size(), 3U);
  for (const Json& stage : json["stages"]) {
    EXPECT_GE(stage["as_transformers"].size(), 3U);
  }
}

TEST(PlanPage, IsOneFile) {
  TemporaryFolder folder;
  auto path = [&](const char* name) { return (folder.path() / name).string(); };
  CommandResult done =
      run_snug({"plan", source_path("recipes/three_stages.yml"), "--html", path("plan.html")});
  EXPECT_EQ(done.exit_code, 0) << done.errors;
  std::ifstream file(path("plan.html"));
  std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(page.find("http://"), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
  EXPECT_NE(page.find("\"letter\""), std::string::npos);
}

}  // namespace
}  // namespace snug
