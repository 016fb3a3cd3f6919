// Several runs that make the same tokens, runs that are killed, disks that are full.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <csignal>
#include <thread>

#include "data/data_fixture.h"
#include "data/tokens/cache.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class TokenBuildTest : public DataTest {
 protected:
  // About 3 MB: long enough that runs which start together meet.
  std::string large_file() const {
    std::string content;
    for (int i = 0; i < 30000; ++i) {
      content += "{\"text\": \"" + std::string(static_cast<size_t>(i % 50 + 2), "abcd"[i % 4]) +
                 " abc ab c " + std::to_string(i % 7 == 0 ? 0 : 1) + "\"}\n";
    }
    std::replace(content.begin(), content.end(), '0', 's');
    std::replace(content.begin(), content.end(), '1', 'd');
    return file("d.jsonl", content);
  }
  std::vector<fs::path> left_in_cache(const std::string& end) const {
    return files_ending(folder_ / ".snug", end);
  }
  // Made in a folder of its own.
  std::vector<std::vector<TokenWord>> expected_words(const std::string& path) {
    recipe_.data.cache_dir = (folder_ / "apart").string();
    std::vector<std::vector<TokenWord>> words = words_of(*table_of(path));
    recipe_.data.cache_dir.clear();
    return words;
  }
};

TEST_F(TokenBuildTest, ThreadsThatMakeTheSameTokensAtOnceGetTheSame) {
  std::string path = large_file();
  std::vector<std::vector<TokenWord>> expected = expected_words(path);
  constexpr size_t kThreads = 4;
  std::vector<std::vector<std::vector<TokenWord>>> got(kThreads);
  std::atomic<int> builders = 0;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      bool built = false;
      DataObserver observer = [&](const DataProgress& progress) {
        built = built || progress.stage.starts_with("tokenizing");
      };
      TokenStore store(tokenize_options(recipe_.data, model()), {}, observer);
      got[i] = words_of(*store.get(path));
      builders += built ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& words : got) {
    EXPECT_TRUE(words == expected);
  }
  EXPECT_EQ(builders, 1) << "the others waited";
  EXPECT_EQ(left_in_cache(".tokens").size(), 1U);
  EXPECT_TRUE(left_in_cache(".partial").empty());
}

// Children wait at a pipe, so that they begin together. Each tells by its exit code whether it built.
TEST_F(TokenBuildTest, ProcessesThatMakeTheSameTokensAtOnceGetTheSame) {
  std::string path = large_file();
  std::vector<std::vector<TokenWord>> expected = expected_words(path);
  std::array<int, 2> gate{};
  ASSERT_EQ(::pipe(gate.data()), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    pid_t child = ::fork();
    if (child == 0) {
      set_thread_count(1);
      ::close(gate[1]);
      char byte = 0;
      [[maybe_unused]] ssize_t ignored = ::read(gate[0], &byte, 1);
      bool built = false;
      observer_ = [&](const DataProgress& progress) {
        built = built || progress.stage.starts_with("tokenizing");
      };
      try {
        bool same = words_of(*table_of(path)) == expected;
        ::_exit(same ? static_cast<int>(built) : 2);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(3);
      }
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  int builders = 0;
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_LE(WEXITSTATUS(status), 1) << "2: other tokens; 3: an error";
    builders += WEXITSTATUS(status);
  }
  EXPECT_EQ(builders, 1);
  EXPECT_EQ(left_in_cache(".tokens").size(), 1U);
}

TEST_F(TokenBuildTest, AKilledBuildIsCleanedUpByTheNext) {
  std::string path = large_file();
  int status = in_child([&] {
    observer_ = [](const DataProgress& progress) {
      if (progress.stage.starts_with("tokenizing")) {
        std::raise(SIGKILL);
      }
    };
    table_of(path);
    return 0;
  });
  EXPECT_EQ(status, 128 + SIGKILL);
  EXPECT_TRUE(left_in_cache(".tokens").empty());
  EXPECT_EQ(left_in_cache(".partial").size(), 1U);
  EXPECT_TRUE(words_of(*table_of(path)) == expected_words(path));
  EXPECT_TRUE(left_in_cache(".partial").empty());
}

// Other runs write small notes into the folder without the lock: theirs must not be taken away from them.
TEST_F(TokenBuildTest, WhatOthersAreWritingIsLeftAlone) {
  std::string path = file("d.jsonl", "{\"text\": \"abc\"}\n");
  fs::create_directory(folder_ / ".snug");
  for (const char* name : {".0123.seen.99-0.partial", "..gitignore.99-0.partial", ".adapter.99-1.partial"}) {
    write_raw(folder_ / ".snug" / name, "x");
  }
  write_raw(folder_ / ".snug/.0123.tokens.99-0.partial", "x");
  table_of(path);
  EXPECT_EQ(left_in_cache(".partial").size(), 3U);
  EXPECT_TRUE(left_in_cache(".tokens.99-0.partial").empty());
}

// The lock is the system's: it goes with whoever held it.
TEST_F(TokenBuildTest, ASecondBuilderIsToldThatItWaits) {
  fs::path folder = folder_ / "cache";
  std::atomic<bool> waited = false;
  std::thread second;
  {
    BuildLock first(folder, [] { FAIL() << "nobody else is there"; });
    second = std::thread([&] { BuildLock lock(folder, [&] { waited = true; }); });
    for (int i = 0; i < 1000 && !waited; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(waited);
  }
  second.join();
}

TEST_F(TokenBuildTest, AFullDiskIsNamedAndLeavesNoCache) {
  std::string path = large_file();
  fs::path disk = folder_ / "disk";
  fs::create_directory(disk);
  int status = in_child([&] {
    constexpr int kCannotMount = 77;
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      return kCannotMount;
    }
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0) {
      return kCannotMount;
    }
    recipe_.data.cache_dir = disk.string();
    bool clear = false;
    try {
      table_of(path);
    } catch (const Error& error) {
      std::string message = error.what();
      clear = error.kind() == ErrorKind::environment && message.find(disk.string()) == 0 &&
              message.find("disk full") != std::string::npos &&
              message.find("data.cache_dir") != std::string::npos;
    }
    bool empty = files_ending(disk, ".tokens").empty() && files_ending(disk, ".partial").empty();
    ::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m");
    bool works = table_of(path)->rows() == 30000;
    return (clear ? 0 : 1) + (empty ? 0 : 2) + (works ? 0 : 4);
  });
  if (status == 77) {
    GTEST_SKIP() << "no permission to mount a small file system";
  }
  EXPECT_EQ(status, 0) << "1: no clear message; 2: something was left; 4: does not work with more space";
}

}  // namespace
}  // namespace snug
