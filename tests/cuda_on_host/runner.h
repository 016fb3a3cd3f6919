// Which thread goes on when.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "cuda_on_host/block.h"

namespace snug::cuda_on_host {

// Whether an environment variable has that value.
bool is_set(const char* name, std::string_view wanted);

// Memory of blocks that have ended is taken for others.
class Pool {
 public:
  std::byte* take(size_t bytes);
  void give_back(std::byte* memory, size_t bytes) { free_[bytes].push_back(memory); }

 private:
  std::map<size_t, std::vector<std::byte*>> free_;
};

// By SNUG_HOST_THREADS: forward, backward, or by chance in every round, from a seed.
class ThreadOrder {
 public:
  struct Warp {
    int number;
    bool backward;  // its threads
    bool is_held;   // not in this round
  };

  ThreadOrder();
  // The warps of a block, as they go on in this round.
  const std::vector<Warp>& of(int warps);
  // Whether a block is held, of which as many rounds are left.
  bool holds_block(int& rounds);

 private:
  bool backward_ = false;
  std::optional<Rng> chance_;
  std::vector<Warp> warps_;
};

class Runner {
 public:
  void run(const Grid& grid, const std::function<void()>& body);

  Block& block() { return *block_; }
  Thread& thread() { return *thread_; }
  int number() const { return static_cast<int>(thread_ - block_->threads.data()); }
  void wait() {
    thread_->state = State::waiting;
    thread_->fiber.pause();
  }

  Meeting& meeting_of(Those those) {
    return those == Those::warp ? block_->warps[static_cast<size_t>(number() / kWarpThreads)] : block_->all;
  }
  // Whether all have come that have not ended; then they do what they met for, and go on.
  bool close(Those those);
  void close_cluster();

  size_t shared_bytes() const { return grid_.shared_bytes; }

  uint64_t events = 0;

 private:
  void admit(unsigned& next);
  bool has_ended(Cluster& cluster);
  bool note_held(const Thread* threads, int count);
  void go_on(Block& block);
  void resume(Block& block, Thread& thread);
  static void begin(void* argument);
  // Of the thread that runs now.
  void end();
  // The first thread of those whom thread `number` meets, and how many there are.
  std::pair<int, int> members(Those those, int number) const;

  Grid grid_;
  const std::function<void()>* body_ = nullptr;
  int threads_ = 0;
  ThreadOrder order_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  Pool pool_;
  Block* block_ = nullptr;
  Thread* thread_ = nullptr;
  std::array<void*, 1024> given_{};  // to those who meet
};

// One at a time: kernels are run by the thread that launches them.
extern Runner runner;

}  // namespace snug::cuda_on_host
