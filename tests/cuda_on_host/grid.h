// Runs a kernel on the host: each thread is a fiber, and all take turns where they wait for each other.
// Blocks come one cluster after another; more of them are at work at once only when those that are there wait
// for others.
//
// What the hardware would leave undefined, or would wait for forever, ends the test with a message: threads
// that meet for different things, values asked of threads that have ended, blocks that wait for what will not
// come.
//
// Two switches bring other orders, which a kernel's result must not depend on: SNUG_HOST_THREADS=backward
// lets the last thread go first, SNUG_HOST_THREADS=7 (a seed) another warp each time, SNUG_HOST_WORK=late
// lets what is asynchronous (copies, products, whole kernels) happen when it is waited for, not when it is
// asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace snug::cuda_on_host {

struct Index {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

struct Grid {
  Index blocks;
  Index threads;
  size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks, in a row
};

// Where the thread that runs now is. Kernels read them by the names that CUDA has for them.
struct Position {
  Index thread;
  Index block;
  Index threads;
  Index blocks;
};
inline Position here;

// Calls `thread` for each thread of each block.
void run_grid(const Grid& grid, const std::function<void()>& thread);

// ---- called by threads ----

inline constexpr int kWarpThreads = 32;
inline constexpr int kGroupThreads = 128;

// The thread's number within its block, and its number there among those who meet.
int thread_number();
enum class Those { warp, block };
inline int lane() {
  return thread_number() % kWarpThreads;
}

// Waits until all of them have come that have not ended. The last one calls act(what each gave, how many
// there are): by their numbers, null for those that have ended.
using Act = void (*)(void* const* given, int count);
void meet(Those those, void* given, Act act);
// Without doing anything together.
void meet(Those those);

// Those of `count` threads that name the same barrier, or have arrived there.
void wait_at(int barrier, int count);
void arrive_at(int barrier, int count);

// All threads of the cluster that have not ended.
void arrive_at_cluster();
void wait_for_cluster();
int rank_in_cluster();
int blocks_of_cluster();

// Lets others go on, when what this thread waits for is not there yet.
void let_others_go_on();
// Something has happened that another thread may be waiting for.
void tell_others();
[[noreturn]] void fail(const char* what);

// ---- shared memory ----

inline constexpr int kRankShift = 18;  // addresses have the block's rank in the cluster above that bit

std::byte* dynamic_shared();
uint32_t address_in_shared(const void* pointer);
// `bytes` have to lie in the dynamic shared memory of one of the cluster's blocks.
std::byte* shared_at(uint32_t address, size_t bytes, size_t alignment);
inline uint32_t address_in_block(uint32_t address, int rank) {
  return (address & ((1U << kRankShift) - 1)) | static_cast<uint32_t>(rank) << kRankShift;
}

// ---- what is asked for now and happens later ----

bool happens_late();

// In groups that are waited for in order.
class Later {
 public:
  // Now, unless it happens late.
  void add(std::function<void()> work);
  void end_group();
  // Until at most so many groups are left, besides one that has not ended.
  void finish(size_t left);

 private:
  std::deque<std::vector<std::function<void()>>> groups_;  // the open one last
};

Later& copies_of_thread();
Later& writes_of_thread();
Later& products_of_warp();

// A copy whose barrier says when it is there: now, or when someone waits for that.
void copy_for_barrier(uint32_t barrier, std::function<void()> copy);
// Those that have not happened yet; whether there were any.
bool finish_copies_for(uint32_t barrier);

}  // namespace snug::cuda_on_host
