// metrics.jsonl where it cannot grow: rows are left out whole, and counted.
#include "train/metrics_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "io/atomic_file.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

TEST(MetricsFile, LeavesOutWhatDoesNotFitAndGoesOn) {
  TemporaryFolder folder;
  std::filesystem::path path = folder / "metrics.jsonl";
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  MetricsFile metrics(path);
  EXPECT_TRUE(metrics.append({{"step", 1}}));
  rlimit small = before;
  small.rlim_cur = 16;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  bool written = metrics.append({{"step", 2}, {"text", "too long"}});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(written);
  EXPECT_NE(metrics.problem().find("ulimit -f"), std::string::npos) << metrics.problem();
  EXPECT_EQ(read_text_file(path), "{\"step\":1}\n");
  EXPECT_TRUE(metrics.append({{"step", 3}}));
  EXPECT_EQ(read_text_file(path), "{\"step\":1}\n{\"step\":3}\n");
  EXPECT_EQ(metrics.rows_lost(), 1);
}

}  // namespace
}  // namespace snug
