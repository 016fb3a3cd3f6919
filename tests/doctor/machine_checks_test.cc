// Processes, limits and disks.
#include "doctor/machine_checks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "doctor/process.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

// A name may hold blanks and parentheses; its arguments end in zeros.
TEST(Process, IsReadFromProc) {
  TemporaryFolder folder;
  std::filesystem::path proc = folder.path() / "proc";
  long ticks = sysconf(_SC_CLK_TCK);
  write(proc / "uptime", "1000.50 3000.00\n");
  write(proc / "42" / "cmdline", std::string("python3\0train.py\0--lr\0"
                                             "1e-4\0",
                                             27));
  write(proc / "42" / "stat", "42 (a (b) c) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 " +
                                  std::to_string(900 * ticks) + " 123 456\n");
  std::optional<ProcessFacts> facts = read_process(42, folder.path().string());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->command, "python3 train.py --lr 1e-4");
  EXPECT_NEAR(facts->seconds, 100.5, 1e-9);
  EXPECT_FALSE(facts->user.empty());
  EXPECT_FALSE(read_process(43, folder.path().string()).has_value());
}

TEST(Process, ThisOne) {
  std::optional<ProcessFacts> facts = read_process(static_cast<unsigned>(getpid()));
  ASSERT_TRUE(facts.has_value());
  EXPECT_NE(facts->command.find("test_doctor"), std::string::npos) << facts->command;
  EXPECT_LT(facts->seconds, 3600);
}

TEST(Limits, FewFilesAndSmallFiles) {
  std::vector<Check> checks =
      check_limits({.open_files = 64, .locked_bytes = {}, .file_bytes = 1000, .address_bytes = {}}, 2000);
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].status, CheckStatus::warning);
  EXPECT_NE(checks[0].remedy.find("ulimit -n"), std::string::npos);
  EXPECT_EQ(checks[1].status, CheckStatus::problem);
  EXPECT_NE(checks[1].remedy.find("ulimit -f"), std::string::npos);
  checks = check_limits({}, 2000);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].status, CheckStatus::ok);
}

TEST(Processor, IsTakenForAnOldOne) {
  Check check = check_processor("Prescott", true);
  EXPECT_EQ(check.status, CheckStatus::warning);
  EXPECT_NE(check.remedy.find("OPENBLAS_CORETYPE"), std::string::npos);
  EXPECT_EQ(check_processor("Prescott", false).status, CheckStatus::ok);
  EXPECT_EQ(check_processor("SkylakeX", true).status, CheckStatus::ok);
}

TEST(Limits, LittleMemory) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(check_memory(8 * kGiB, 4 * kGiB).status, CheckStatus::ok);
  EXPECT_EQ(check_memory(8 * kGiB, kGiB / 2).status, CheckStatus::warning);
}

TEST(Output, ADiskThatIsTooSmallAndAFolderThatIsNotThere) {
  TemporaryFolder folder;
  std::filesystem::path place = folder.path() / "runs" / "new";
  EXPECT_EQ(check_output(place, 1000).status, CheckStatus::ok);
  EXPECT_FALSE(std::filesystem::exists(place)) << "nothing is made";
  Check full = check_output(place, int64_t{1} << 60);
  EXPECT_EQ(full.status, CheckStatus::problem);
  EXPECT_NE(full.remedy.find("save_total_limit"), std::string::npos);
  write(place / "manifest.json", "{}");
  EXPECT_EQ(check_output(place, 1000).status, CheckStatus::warning);
}

}  // namespace
}  // namespace snug
