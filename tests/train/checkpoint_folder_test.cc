// Checkpoint folders: whole or not there, and known when they are damaged.
#include "train/checkpoint_folder.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "io/atomic_file.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class Checkpoints : public testing::Test {
 protected:
  fs::path write(int64_t step, const std::string& content) {
    return write_checkpoint_folder(run_.path(), step, [&](const fs::path& folder) {
      write_file_atomically(folder / "a", content);
      write_file_atomically(folder / "empty", "");
    });
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> found;
    for (const CheckpointFolder& checkpoint : find_checkpoints(run_.path())) {
      found.push_back(checkpoint.step);
    }
    return found;
  }
  int64_t entries() const {
    return std::distance(fs::directory_iterator(run_.path()), fs::directory_iterator());
  }

  TemporaryFolder run_;
};

TEST_F(Checkpoints, AreFoundByTheirNumberNewestFirst) {
  write(9, "nine");
  write(100, "hundred");
  write(20, "twenty");
  EXPECT_EQ(steps(), (std::vector<int64_t>{100, 20, 9}));
  EXPECT_EQ(checkpoint_problem(run_.path() / "checkpoint-20"), "");
}

TEST_F(Checkpoints, OneThatCannotBeWrittenLeavesNothingBehind) {
  write(1, "good");
  EXPECT_THROW(write_checkpoint_folder(run_.path(), 2,
                                       [](const fs::path& folder) {
                                         write_file_atomically(folder / "a", "half");
                                         throw std::runtime_error("disk full");
                                       }),
               std::runtime_error);
  EXPECT_EQ(steps(), std::vector<int64_t>{1});
  EXPECT_EQ(entries(), 1);
  EXPECT_EQ(checkpoint_problem(run_.path() / "checkpoint-1"), "");
}

TEST_F(Checkpoints, OneOfTheSameStepIsReplaced) {
  write(5, "old");
  fs::path now = write(5, "new");
  EXPECT_EQ(read_text_file(now / "a"), "new");
  EXPECT_EQ(checkpoint_problem(now), "");
  EXPECT_EQ(entries(), 1);
}

TEST_F(Checkpoints, DamageHasAName) {
  fs::path folder = write(5, "some bytes");
  write_file_atomically(folder / "a", "same bytes");
  EXPECT_EQ(checkpoint_problem(folder), "a is damaged: its checksum is another");
  write_file_atomically(folder / "a", "some");
  EXPECT_EQ(checkpoint_problem(folder), "a has 4 bytes, not 10");
  fs::remove(folder / "a");
  EXPECT_EQ(checkpoint_problem(folder), "a is missing");
  write_file_atomically(folder / kCheckpointManifest, "{\"made_by\":");
  EXPECT_EQ(checkpoint_problem(folder), "checkpoint.json is missing or damaged");
  EXPECT_TRUE(steps().empty());
}

TEST_F(Checkpoints, OtherToolsFoldersAreNotOurs) {
  fs::create_directories(run_.path() / "checkpoint-500");
  write_file_atomically(run_.path() / "checkpoint-500/optimizer.pt", "theirs");
  fs::create_directories(run_.path() / "checkpoint-latest");
  write(7, "ours");
  EXPECT_EQ(steps(), std::vector<int64_t>{7});
  EXPECT_EQ(foreign_checkpoints(run_.path()), std::vector<std::string>{"checkpoint-500"});
  remove_checkpoint(run_.path() / "checkpoint-500");
  EXPECT_TRUE(fs::exists(run_.path() / "checkpoint-500/optimizer.pt"));
}

// Files that somebody put there stay; names in a manifest that lead out of the folder are not believed.
TEST_F(Checkpoints, RemovingTakesOnlyWhatWasWritten) {
  write_file_atomically(run_.path() / "precious", "x");
  fs::path folder = write(7, "ours");
  write_file_atomically(folder / "notes.txt", "mine");
  std::string manifest = read_text_file(folder / kCheckpointManifest);
  size_t at = manifest.find("\"empty\"");
  manifest.replace(at, 7, "\"../precious\"");
  write_file_atomically(folder / kCheckpointManifest, manifest);
  remove_checkpoint(folder);
  EXPECT_TRUE(fs::exists(run_.path() / "precious"));
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
  EXPECT_FALSE(fs::exists(folder / "a"));
  EXPECT_TRUE(steps().empty());
}

}  // namespace
}  // namespace snug
