// Runs are found by their folders, and metrics are read as they grow.
#include "train/run_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// To whom a closed folder is closed: the superuser may look into any.
class AsNobody {
 public:
  AsNobody() {
    if (is_superuser_) {
      changed_ = seteuid(kNobody) == 0;
    }
  }
  ~AsNobody() {
    if (changed_) {
      [[maybe_unused]] int status = seteuid(0);
    }
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  bool holds() const { return !is_superuser_ || changed_; }

 private:
  static constexpr uid_t kNobody = 65534;
  bool is_superuser_ = geteuid() == 0;
  bool changed_ = false;
};

TEST(FindRuns, FolderIntoWhichNobodyMayLookIsNamed) {
  TemporaryFolder folder;
  for (const char* name : {"a", "closed", "listed", "z/inner"}) {
    fs::create_directories(folder / name);
  }
  for (const char* name : {"listed", "z/inner"}) {
    std::ofstream(folder / name / "manifest.json") << R"({"made_by": "snug"})";
  }
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(folder / "closed", fs::perms::none);
  fs::permissions(folder / "listed", fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  FoundRuns found;
  bool is_tried = false;
  {
    AsNobody nobody;
    is_tried = nobody.holds();
    found = find_runs(folder.path());
  }
  for (const char* name : {"closed", "listed"}) {
    fs::permissions(folder / name, fs::perms::all);
  }
  if (!is_tried) {
    GTEST_SKIP() << "this user may look everywhere and cannot be another one";
  }
  EXPECT_EQ(found.folders, std::vector<fs::path>{folder / "z/inner"});
  ASSERT_EQ(found.closed.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found.closed[i].folder, folder / (i == 0 ? "closed" : "listed"));
    EXPECT_NE(found.closed[i].reason.find("denied"), std::string::npos) << found.closed[i].reason;
  }
}

class Metrics : public testing::Test {
 protected:
  void write(const std::string& text, std::ios::openmode mode) { std::ofstream(file_, mode) << text; }
  static std::string row(int step, double loss) {
    return Json({{"step", step}, {"loss", loss}, {"tokens_per_second", 100.0 * step}}).dump() + "\n";
  }
  TemporaryFolder folder_;
  fs::path file_ = folder_ / "metrics.jsonl";
  MetricsReader reader_;
};

TEST_F(Metrics, FiguresFollowAFileThatGrows) {
  EXPECT_EQ(reader_.read(file_).steps, 0) << "no file yet";
  write(row(1, 4) + row(2, 3), std::ios::trunc);
  EXPECT_EQ(reader_.read(file_).steps, 2);
  write(row(3, 2) + R"({"step": 3, "eval_loss": 1.5})" + "\n" + R"({"step": 4, "lo)", std::ios::app);
  RunFigures figures = reader_.read(file_);
  EXPECT_EQ(figures.steps, 3);
  EXPECT_EQ(figures.first_loss, 4.0);
  EXPECT_EQ(figures.last_loss, 2.0);
  EXPECT_EQ(figures.eval_loss, 1.5);
  EXPECT_EQ(figures.tokens_per_second, 200.0);
}

TEST_F(Metrics, FiguresBeginAnewWhereARunDoes) {
  write(row(1, 4) + row(2, 3) + row(3, 2), std::ios::trunc);
  reader_.read(file_);
  write(row(1, 9), std::ios::trunc);
  RunFigures figures = reader_.read(file_);
  EXPECT_EQ(figures.steps, 1);
  EXPECT_EQ(figures.first_loss, 9.0);
  EXPECT_EQ(figures.tokens_per_second, 100.0);
}

}  // namespace
}  // namespace snug
