// Atomic files: whole or absent, and clear about what the machine refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "io/atomic_file.h"
#include "io/file_fixtures.h"

namespace snug {
namespace {

TEST(AtomicFile, AppearsOnCommitWithAllItsBytes) {
  TemporaryFolder folder;
  std::string expected(300000, 'a');
  AtomicFile file(folder / "deep/er/x.bin");
  file.write("abc");
  file.write(std::as_bytes(std::span(expected)));
  file.write_at(1, std::as_bytes(std::span("ZZ", 2)));
  EXPECT_FALSE(std::filesystem::exists(folder / "deep/er/x.bin"));
  file.commit();
  EXPECT_EQ(read_raw(folder / "deep/er/x.bin"), "aZZ" + expected);
}

TEST(AtomicFile, LeavesNothingWhenDestroyedAndKeepsTheOldFile) {
  TemporaryFolder folder;
  write_raw(folder / "x", "old");
  {
    AtomicFile file(folder / "x");
    file.write("new and longer");
    EXPECT_EQ(folder.entry_count(), 2U);
  }
  EXPECT_EQ(folder.entry_count(), 1U);
  EXPECT_EQ(read_raw(folder / "x"), "old");
  write_file_atomically(folder / "x", "new");
  EXPECT_EQ(folder.entry_count(), 1U);
  EXPECT_EQ(read_raw(folder / "x"), "new");
}

TEST(AtomicFile, ObeysTheUmask) {
  TemporaryFolder folder;
  mode_t before = ::umask(027);
  write_file_atomically(folder / "x", "x");
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat((folder / "x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST(AtomicFile, TwoAtOnceDoNotMeet) {
  TemporaryFolder folder;
  AtomicFile first(folder / "x");
  AtomicFile second(folder / "x");
  first.write("first");
  second.write("second");
  first.commit();
  second.commit();
  EXPECT_EQ(read_raw(folder / "x"), "second");
  EXPECT_EQ(folder.entry_count(), 1U);
}

TEST(AtomicFile, AFolderBelowAFileIsRefused) {
  TemporaryFolder folder;
  write_raw(folder / "file", "x");
  std::string message =
      error_text(ErrorKind::environment, [&] { AtomicFile file(folder / "file/sub/x.json"); });
  EXPECT_SAYS(message, "file");
  EXPECT_SAYS(message, "write to another folder");
  error_text(ErrorKind::environment, [&] { require_writable_folder(folder / "file"); });
  error_text(ErrorKind::bad_input, [&] { AtomicFile file(folder.path()); });
  EXPECT_EQ(folder.entry_count(), 1U);
}

TEST(AtomicFile, AFileSystemThatTakesNoFilesIsRefused) {
  // /proc refuses new files even to root.
  std::string message = error_text(ErrorKind::environment, [] { require_writable_folder("/proc/self"); });
  EXPECT_SAYS(message, "/proc/self");
}

// Runs in a child process that gives up root's right to write everywhere. Returns an exit code.
int write_into_closed_folder(const std::filesystem::path& closed) {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0 && ::setuid(kNobody) != 0) {
    return 77;
  }
  try {
    require_writable_folder(closed);
  } catch (const Error& error) {
    std::string message = error.what();
    bool clear = error.kind() == ErrorKind::environment && message.find(closed.string()) == 0 &&
                 message.find("permission denied; allow writing there") != std::string::npos;
    return clear ? 0 : 1;
  }
  return 2;
}

TEST(AtomicFile, AFolderWithoutPermissionIsRefused) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "closed");
  ::chmod((folder / "closed").c_str(), 0555);
  ::chmod(folder.path().c_str(), 0755);
  pid_t child = ::fork();
  if (child == 0) {
    ::_exit(write_into_closed_folder(folder / "closed"));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "root cannot become another user here";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: unclear message; 2: no error";
}

TEST(AtomicFile, AWritableFolderIsCreatedAndLeftEmpty) {
  TemporaryFolder folder;
  require_writable_folder(folder / "a/b");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "a/b"));
}

TEST(AtomicFile, AFullDeviceSaysHowMuchWasWanted) {
  int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) {
    GTEST_SKIP() << "no /dev/full here";
  }
  std::string bytes(12345, 'x');
  std::string message = error_text(
      ErrorKind::environment, [&] { write_fully(full, 0, std::as_bytes(std::span(bytes)), "out/adapter"); });
  ::close(full);
  EXPECT_SAYS(message, "out/adapter");
  EXPECT_SAYS(message, "disk full: 12345 more bytes");
  EXPECT_SAYS(message, "free space, or write to another folder");
}

TEST(AtomicFile, MoreThanTheDiskHoldsIsRefusedAtOnce) {
  TemporaryFolder folder;
  std::string message = error_text(ErrorKind::environment, [&] {
    AtomicFile file(folder / "x");
    file.reserve(int64_t{1} << 60);
  });
  EXPECT_SAYS(message, "disk full");
  EXPECT_EQ(folder.entry_count(), 0U);
}

TEST(AtomicFile, TheLimitOnFileSizesIsNamed) {
  TemporaryFolder folder;
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit small = before;
  small.rlim_cur = 4096;
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message = error_text(ErrorKind::environment, [&] {
    AtomicFile file(folder / "x");
    file.write(std::string(10000, 'x'));  // 4096 go through: the rest is what was wanted
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_SAYS(message, "5904 more bytes");
  EXPECT_SAYS(message, "ulimit -f");
  EXPECT_EQ(folder.entry_count(), 0U);
}

// Runs in a child process: a small file system of its own, really filled. Returns an exit code.
int fill_a_small_disk(const std::filesystem::path& mount_point) {
  constexpr int kCannotMount = 77;
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return kCannotMount;
  }
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (::mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=64k") != 0) {
    return kCannotMount;
  }
  bool full = false;
  try {
    AtomicFile file(mount_point / "x");
    for (int i = 0; i < 100; ++i) {
      file.write(std::string(4096, 'x'));
    }
    file.commit();
  } catch (const Error& error) {
    full = std::string(error.what()).find("disk full: 4096 more bytes") != std::string::npos;
  }
  bool read_only = false;
  bool empty = std::filesystem::is_empty(mount_point);
  ::mount("tmpfs", mount_point.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=64k");
  try {
    require_writable_folder(mount_point);
  } catch (const Error& error) {
    read_only = std::string(error.what()).find("read-only; write to another folder") != std::string::npos;
  }
  return (full ? 0 : 1) + (empty ? 0 : 2) + (read_only ? 0 : 4);
}

TEST(AtomicFile, AFullAndAReadOnlyFileSystem) {
  TemporaryFolder folder;
  pid_t child = ::fork();
  if (child == 0) {
    ::_exit(fill_a_small_disk(folder.path()));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "no permission to mount a small file system";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0)
      << "1: no disk-full message; 2: something was left; 4: no read-only message";
}

TEST(ReadTextFile, ReadsAllAndRefusesTooMuch) {
  TemporaryFolder folder;
  std::string text(200000, 'y');
  text[100000] = '\0';
  write_raw(folder / "t", text);
  EXPECT_EQ(read_text_file(folder / "t"), text);
  EXPECT_EQ(read_text_file(folder / "t", 200000), text);
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { read_text_file(folder / "t", 199999); }), "too large");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { read_text_file(folder / "t/u"); }), "no such file");
  EXPECT_FALSE(read_text_file("/proc/self/status").empty());
}

}  // namespace
}  // namespace snug
