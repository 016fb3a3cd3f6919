// Blocks that are at work, and their threads.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "cuda_on_host/fiber.h"
#include "cuda_on_host/grid.h"

namespace snug::cuda_on_host {

inline constexpr size_t kMostSharedBytes = size_t{227} << 10;
inline constexpr int kBarriers = 16;

enum class State { ready, waiting, ended };

struct Thread {
  Fiber fiber;
  State state = State::ready;
  bool paused = false;      // it waits for something by asking again and again
  bool asks_again = false;  // as it did before it went on
  void* given = nullptr;
  uint64_t cluster_phase = UINT64_MAX;  // that it has arrived in
  Later copies;
  Later writes;
};

// Threads that wait for each other.
struct Meeting {
  int alive = 0;  // of those who meet, where that is what counts
  int come = 0;
  Act act = nullptr;
  std::vector<Thread*> waiting;

  void let_go() {
    for (Thread* thread : waiting) {
      thread->state = State::ready;
    }
    waiting.clear();
    come = 0;
  }
};

struct Cluster;

struct Block {
  Cluster* cluster = nullptr;
  Index index;
  int rank = 0;
  int held_rounds = 0;
  std::vector<Thread> threads;
  std::vector<Meeting> warps;
  std::vector<Later> products;  // of warps
  Meeting all;
  std::array<Meeting, kBarriers> barriers;
  std::byte* shared = nullptr;
  std::byte* stacks = nullptr;
  std::map<uint32_t, std::vector<std::function<void()>>> late_copies;  // by their barriers
  int left = 0;                                                        // threads that have not ended
};

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;
  Meeting barrier;
  uint64_t phase = 0;
  int left = 0;
};

}  // namespace snug::cuda_on_host
