// Locks on folders, and disk space that is taken before it is needed.
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <memory>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/disk_space.h"
#include "io/folder_lock.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

TEST(FolderLock, IsHeldByOneAndLeavesNothingBehind) {
  TemporaryFolder folder;
  auto first = std::make_unique<FolderLock>(folder.path());
  EXPECT_FALSE(first->is_held_elsewhere());
  EXPECT_TRUE(FolderLock(folder.path()).is_held_elsewhere());
  first.reset();
  EXPECT_FALSE(FolderLock(folder.path()).is_held_elsewhere());
  EXPECT_EQ(folder.entry_count(), 0U);
}

TEST(DiskReservation, TakesSpaceWithoutANameAndGivesItBack) {
  TemporaryFolder folder;
  auto free_bytes = [&] {
    struct statvfs disk {};
    EXPECT_EQ(statvfs(folder.path().c_str(), &disk), 0);
    return static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  };
  DiskReservation reservation(folder.path(), {{"a", 5000}, {"b", 1}, {"c", 0}});
  EXPECT_EQ(folder.entry_count(), 0U);
  reservation.release();
  double too_much = 2 * free_bytes();
  if (too_much > 9e18) {
    GTEST_SKIP() << "this disk has no end";
  }
  try {
    DiskReservation never(folder.path(), {{"small", 10}, {"large", static_cast<int64_t>(too_much)}});
    FAIL() << "twice the free space cannot be had";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(std::string(error.what()).find((folder / "large").string()), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("disk full"), std::string::npos) << error.what();
  }
  EXPECT_EQ(folder.entry_count(), 0U);
}

TEST(PartialFiles, GoAndOthersStay) {
  TemporaryFolder folder;
  for (const char* name : {".x.safetensors.1-0.partial", "x.partial", ".hidden"}) {
    write_file_atomically(folder / name, "x");
  }
  remove_partial_files(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder / ".x.safetensors.1-0.partial"));
  EXPECT_TRUE(std::filesystem::exists(folder / "x.partial"));
  EXPECT_TRUE(std::filesystem::exists(folder / ".hidden"));
}

}  // namespace
}  // namespace snug
