// A file where it cannot grow: records are left out whole, and counted.
#include "io/appended_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "io/atomic_file.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

TEST(AppendedFile, LeavesOutWhatDoesNotFitAndGoesOn) {
  TemporaryFolder folder;
  std::filesystem::path path = folder / "metrics.jsonl";
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  AppendedFile file(path);
  EXPECT_TRUE(file.append("{\"step\":1}\n"));
  rlimit small = before;
  small.rlim_cur = 16;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  bool written = file.append("{\"step\":2,\"text\":\"too long\"}\n");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(written);
  EXPECT_NE(file.problem().find("ulimit -f"), std::string::npos) << file.problem();
  EXPECT_EQ(read_text_file(path), "{\"step\":1}\n");
  EXPECT_TRUE(file.append("{\"step\":3}\n"));
  EXPECT_EQ(read_text_file(path), "{\"step\":1}\n{\"step\":3}\n");
  EXPECT_EQ(file.records_lost(), 1);
}

}  // namespace
}  // namespace snug
