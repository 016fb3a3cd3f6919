// The README's examples hold: its plan is the golden one, and its recipe is a recipe.
#include <gtest/gtest.h>

#include "support/run_snug.h"

namespace snug {
namespace {

TEST(Readme, ShowsTheGoldenPlan) {
  std::string readme = read_text_file(source_path("README.md"));
  std::string plan = read_text_file(source_path("tests/goldens/plans/ship_log_20MB.txt"));
  EXPECT_NE(readme.find(plan), std::string::npos)
      << "copy tests/goldens/plans/ship_log_20MB.txt into README.md";
}

TEST(Readme, ItsRecipePlans) {
  std::string readme = read_text_file(source_path("README.md"));
  const std::string fence = "```yaml\n";
  size_t begin = readme.find(fence);
  ASSERT_NE(begin, std::string::npos);
  begin += fence.size();
  // Where the recipes lie, as its paths are relative.
  std::filesystem::path recipe = source_path("recipes/readme_example.tmp.yml");
  write_file_atomically(recipe, readme.substr(begin, readme.find("```", begin) - begin));
  CommandResult result = run_snug({"plan", recipe.string(), "--json"});
  std::filesystem::remove(recipe);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(json_output(result)["limit_bytes"], 2000000000);
}

}  // namespace
}  // namespace snug
