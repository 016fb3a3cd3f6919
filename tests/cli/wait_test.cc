// snug train --wait, on a machine with room: it starts at once.
#include <gtest/gtest.h>

#include "support/run_snug.h"

namespace snug {
namespace {

TEST(Wait, StartsWhereThereIsRoom) {
  TemporaryFolder folder;
  for (const char* wait : {"--wait", "--wait=5"}) {
    CommandResult result =
        run_snug({"train", source_path("recipes/ship_log.yml"), "--device", "cpu", "--set",
                  "training.max_steps=1", "--set", "output_dir=" + (folder.path() / wait).string(), wait});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.output.find("waiting"), std::string::npos);
  }
}

TEST(Wait, ForMinutes) {
  CommandResult result = run_snug({"train", source_path("recipes/ship_log.yml"), "--wait=soon"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("expected minutes"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace snug
