// snug cache as users call it.
#include <gtest/gtest.h>

#include "support/run_snug.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class CacheCommand : public testing::Test {
 protected:
  CacheCommand() {
    write_file_atomically(folder_.path() / "rows.jsonl", "{\"text\": \"Once upon a time\"}\n");
    write_file_atomically(recipe_, "model: {path: " + source_path("models/tiny-story") +
                                       "}\ndata:\n  train_file: rows.jsonl\n  max_length: 64\n");
    EXPECT_EQ(run_snug({"data", recipe_}).exit_code, 0);
  }
  Json cache(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "cache");
    arguments.emplace_back("--json");
    return json_output(run_snug(arguments));
  }

  TemporaryFolder folder_;
  std::string recipe_ = (folder_.path() / "recipe.yml").string();
};

TEST_F(CacheCommand, ShowsTheTokensOfARecipeOrAFolder) {
  for (const std::string& place : {recipe_, folder_.path().string(), (folder_.path() / ".snug").string()}) {
    Json folders = cache({place})["folders"];
    ASSERT_EQ(folders.size(), 1U) << place;
    ASSERT_EQ(folders[0]["caches"].size(), 1U) << place;
    const Json& found = folders[0]["caches"][0];
    EXPECT_EQ(found["files"], "rows.jsonl");
    EXPECT_EQ(found["rows"], 1);
    EXPECT_TRUE(found["usable"].get<bool>());
    EXPECT_EQ(found["bytes"].get<uintmax_t>(), fs::file_size(found["path"].get<std::string>()));
    EXPECT_EQ(folders[0]["bytes"], found["bytes"]);
  }
  EXPECT_NE(run_snug({"cache", recipe_}).output.find("rows.jsonl"), std::string::npos);
}

TEST_F(CacheCommand, ClearsThem) {
  EXPECT_EQ(cache({recipe_, "--clear", "--unused-days", "1"})["removed_bytes"], 0);
  Json before = cache({recipe_});
  Json cleared = cache({recipe_, "--clear"});
  EXPECT_EQ(cleared["removed_bytes"], before["folders"][0]["bytes"]);
  EXPECT_TRUE(cleared["folders"][0]["caches"].empty());
  EXPECT_EQ(run_snug({"data", recipe_}).exit_code, 0) << "and they are made again";
}

// How fast cards are is kept there too.
TEST_F(CacheCommand, ShowsAndClearsWhatIsRememberedOfCards) {
  fs::path record = folder_.path() / ".snug" / "0123456789abcdef0123456789abcdef.card";
  write_file_atomically(record, "{\"card\": {\"name\": \"NVIDIA H200\"}, \"reached\": {}}");
  Json before = cache({recipe_})["folders"][0];
  ASSERT_EQ(before["cards"].size(), 1U);
  EXPECT_EQ(before["cards"][0]["name"], "NVIDIA H200");
  EXPECT_NE(run_snug({"cache", recipe_}).output.find("rates of NVIDIA H200"), std::string::npos);
  Json cleared = cache({recipe_, "--clear"});
  EXPECT_EQ(cleared["removed_bytes"], before["bytes"]);
  EXPECT_TRUE(cleared["folders"][0]["cards"].empty());
  EXPECT_FALSE(fs::exists(record));
}

TEST_F(CacheCommand, RefusesWhatIsNotThere) {
  CommandResult result = run_snug({"cache", (folder_.path() / "none").string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("no such recipe or folder"), std::string::npos);
  EXPECT_EQ(run_snug({"cache", "--unused-days", "3"}).exit_code, 2) << "without --clear it means nothing";
  EXPECT_NE(run_snug({"cache", "--help"}).output.find("Examples"), std::string::npos);
}

}  // namespace
}  // namespace snug
