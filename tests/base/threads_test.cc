// Parallel loops: each index is visited once, whoever gets a core and however many loops there are at once.
#include "base/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace snug {
namespace {

TEST(Threads, EveryIndexIsVisitedOnce) {
  for (int threads : {1, 2, 3, 8}) {
    set_thread_count(threads);
    EXPECT_EQ(thread_count(), threads);
    for (int64_t count : {0, 1, 2, 7, 8, 9, 1000, 4097}) {
      for (int64_t grain : {1, 64, 100000}) {
        auto visits = std::make_unique<std::atomic<int>[]>(static_cast<size_t>(count) + 1);
        parallel_for(count, grain, [&](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i) {
            ++visits[static_cast<size_t>(i)];
          }
        });
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(visits[static_cast<size_t>(i)], 1) << i << " of " << count << " with " << threads;
        }
        ASSERT_EQ(visits[static_cast<size_t>(count)], 0);
      }
    }
  }
  set_thread_count(0);
  EXPECT_GE(thread_count(), 1);
}

TEST(Threads, LoopsInsideLoopsStayOnTheirThread) {
  set_thread_count(2);
  std::atomic<int64_t> sum{0};
  parallel_for(4, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      parallel_for(10, 1, [&](int64_t a, int64_t b) { sum += b - a; });
    }
  });
  EXPECT_EQ(sum, 40);
  set_thread_count(0);
}

TEST(Threads, ItemsOfUnequalLengthAreEachDoneOnceInTheirSlot) {
  constexpr int kThreads = 4;
  set_thread_count(kThreads);
  for (int64_t count : {0, 1, 3, 1000}) {
    std::vector<int> visits(static_cast<size_t>(count));
    std::vector<int64_t> sums(kThreads);  // a slot is never in two hands at once
    parallel_items(count, thread_count(), [&](int slot) {
      return [&, slot](int64_t index) {
        ++visits[static_cast<size_t>(index)];
        sums[static_cast<size_t>(slot)] += index;
      };
    });
    EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1));
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), int64_t{0}), count * (count - 1) / 2);
  }
  set_thread_count(0);
}

// Two threads that both have loops to run, as training and the preparation of the next step have.
TEST(Threads, LoopsOfSeveralThreadsDoNotMeet) {
  set_thread_count(3);
  constexpr int64_t kCount = 1000;
  auto run_loops = [](int64_t& sum) {
    for (int i = 0; i < 200; ++i) {
      std::vector<int64_t> values(kCount);
      parallel_for(kCount, 1, [&](int64_t first, int64_t last) {
        std::iota(values.begin() + first, values.begin() + last, first);
      });
      sum += std::accumulate(values.begin(), values.end(), int64_t{0});
    }
  };
  int64_t sums[2] = {0, 0};
  std::thread other([&] { run_loops(sums[1]); });
  run_loops(sums[0]);
  other.join();
  EXPECT_EQ(sums[0], 200 * kCount * (kCount - 1) / 2);
  EXPECT_EQ(sums[1], sums[0]);
  set_thread_count(0);
}

// A part that somebody works on keeps nobody from the others: this one waits until they are done.
TEST(Threads, APartMayWaitForTheOthers) {
  set_thread_count(4);
  for (int waiting : {0, 1, 3}) {
    std::atomic<int> done{0};
    for_each_part(4, [&](int part) {
      while (part == waiting && done < 3) {
        std::this_thread::yield();
      }
      ++done;
    });
    EXPECT_EQ(done, 4);
  }
  set_thread_count(0);
}

// A forked process has none of the pool's threads, as a busy machine may give them no core: the thread that
// has the loop does all of it.
TEST(Threads, ALoopEndsWithoutHelp) {
  set_thread_count(4);
  for_each_part(4, [](int /*part*/) {});  // the threads are there, in this process
  pid_t child = fork();
  if (child == 0) {
    std::atomic<int> done{0};
    for_each_part(4, [&](int /*part*/) { ++done; });
    _exit(done == 4 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  set_thread_count(0);
}

}  // namespace
}  // namespace snug
