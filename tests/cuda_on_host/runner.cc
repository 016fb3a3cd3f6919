// Which thread goes on when.
#include "cuda_on_host/runner.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

// Around what kernels declare as __shared__ (device.h), from the linker.
extern std::byte __start_snug_shared;
extern std::byte __stop_snug_shared;

namespace snug::cuda_on_host {
namespace {

// In which no thread did more than to ask again: one of them may have been answered, and asked for the next
// thing.
constexpr int kMostIdleRounds = 100;

std::byte* map_memory(size_t bytes) {
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    fail("there is no memory for a block");
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

Runner runner;

bool is_set(const char* name, std::string_view wanted) {
  const char* value = std::getenv(name);
  return value != nullptr && wanted == value;
}

ThreadOrder::ThreadOrder() {
  const char* named = std::getenv("SNUG_HOST_THREADS");
  std::string_view order = named == nullptr ? "" : named;
  backward_ = order == "backward";
  if (!order.empty() && !backward_) {
    chance_.emplace(std::stoull(named));
  }
}

const std::vector<ThreadOrder::Warp>& ThreadOrder::of(int warps) {
  warps_.clear();
  for (int i = 0; i < warps; ++i) {
    warps_.push_back({backward_ ? warps - 1 - i : i, backward_, false});
  }
  if (chance_) {
    for (size_t i = warps_.size(); i > 1; --i) {
      std::swap(warps_[i - 1], warps_[chance_->below(i)]);
    }
    for (Warp& warp : warps_) {
      warp.backward = chance_->below(2) == 0;
      warp.is_held = chance_->below(4) == 0;
    }
  }
  return warps_;
}

bool ThreadOrder::holds_block(int& rounds) {
  if (!chance_) {
    return false;
  }
  constexpr uint64_t kOneOf = 16;
  constexpr uint64_t kMostRounds = 64;
  rounds = rounds > 0                    ? rounds - 1
           : chance_->below(kOneOf) == 0 ? static_cast<int>(chance_->below(kMostRounds))
                                         : 0;
  return rounds > 0;
}

std::byte* Pool::take(size_t bytes) {
  std::vector<std::byte*>& free = free_[bytes];
  if (free.empty()) {
    return map_memory(bytes);
  }
  std::byte* memory = free.back();
  free.pop_back();
  return memory;
}

void Runner::run(const Grid& grid, const std::function<void()>& body) {
  grid_ = grid;
  body_ = &body;
  here.threads = grid.threads;
  here.blocks = grid.blocks;
  threads_ = static_cast<int>(grid.threads.x * grid.threads.y * grid.threads.z);
  unsigned blocks = grid.blocks.x * grid.blocks.y * grid.blocks.z;
  if (grid.shared_bytes > kMostSharedBytes || threads_ > 1024 || blocks % grid.cluster != 0) {
    fail("a kernel asks for more than a processor has");
  }
  unsigned next = 0;
  int idle_rounds = 0;
  while (next < blocks || !clusters_.empty()) {
    uint64_t before = events;
    if (clusters_.empty()) {
      std::memset(&__start_snug_shared, 0xff,
                  static_cast<size_t>(&__stop_snug_shared - &__start_snug_shared));
      admit(next);
    }
    for (auto& cluster : clusters_) {
      for (auto& block : cluster->blocks) {
        go_on(*block);
      }
    }
    std::erase_if(clusters_, [this](auto& cluster) { return has_ended(*cluster); });
    idle_rounds = events == before ? idle_rounds + 1 : 0;
    if (idle_rounds > 0 && next < blocks) {
      admit(next);  // those that are there wait for others
    } else if (idle_rounds == kMostIdleRounds && !clusters_.empty()) {
      block_ = clusters_.front()->blocks.front().get();
      fail("all threads wait for something that will not come");
    }
  }
}

void Runner::admit(unsigned& next) {
  auto cluster = std::make_unique<Cluster>();
  for (unsigned rank = 0; rank < grid_.cluster; ++rank, ++next) {
    auto block = std::make_unique<Block>();
    block->cluster = cluster.get();
    block->rank = static_cast<int>(rank);
    block->index = {next % grid_.blocks.x, next / grid_.blocks.x % grid_.blocks.y,
                    next / grid_.blocks.x / grid_.blocks.y};
    auto count = static_cast<size_t>(threads_);
    block->left = threads_;
    block->threads.resize(count);
    block->warps.resize((count + kWarpThreads - 1) / kWarpThreads);
    block->products.resize(block->warps.size());
    for (int i = 0; i < static_cast<int>(block->warps.size()); ++i) {
      block->warps[static_cast<size_t>(i)].alive = members(Those::warp, i * kWarpThreads).second;
    }
    block->all.alive = threads_;
    block->shared = pool_.take(kMostSharedBytes);
    std::memset(block->shared, 0xff, grid_.shared_bytes);
    block->stacks = pool_.take(count * Fiber::kStackBytes);
    for (size_t i = 0; i < count; ++i) {
      block->threads[i].fiber.start(block->stacks + i * Fiber::kStackBytes, &Runner::begin, this);
    }
    cluster->blocks.push_back(std::move(block));
  }
  cluster->left = threads_ * static_cast<int>(grid_.cluster);
  clusters_.push_back(std::move(cluster));
  ++events;
}

bool Runner::has_ended(Cluster& cluster) {
  if (cluster.left > 0) {
    return false;
  }
  for (auto& block : cluster.blocks) {
    pool_.give_back(block->shared, kMostSharedBytes);
    pool_.give_back(block->stacks, static_cast<size_t>(threads_) * Fiber::kStackBytes);
  }
  return true;
}

// Whether one of them can go on; then nobody waits for what will not come.
bool Runner::note_held(const Thread* threads, int count) {
  bool could = std::any_of(threads, threads + count, [](const Thread& thread) {
    return thread.state == State::ready && !thread.paused && !thread.asks_again;
  });
  events += could ? 1 : 0;
  return could;
}

// Warp by warp, each as far as it comes.
void Runner::go_on(Block& block) {
  if (order_.holds_block(block.held_rounds) && note_held(block.threads.data(), threads_)) {
    return;
  }
  for (Thread& thread : block.threads) {
    thread.asks_again = std::exchange(thread.paused, false);
  }
  for (const ThreadOrder::Warp& warp : order_.of(static_cast<int>(block.warps.size()))) {
    int first = warp.number * kWarpThreads;
    int size = std::min(kWarpThreads, threads_ - first);
    if (warp.is_held && note_held(&block.threads[static_cast<size_t>(first)], size)) {
      continue;
    }
    bool went_on = true;
    while (went_on) {
      went_on = false;
      for (int j = 0; j < size; ++j) {
        Thread& thread = block.threads[static_cast<size_t>(first + (warp.backward ? size - 1 - j : j))];
        if (thread.state == State::ready && !thread.paused) {
          resume(block, thread);
          went_on = true;
        }
      }
    }
  }
}

void Runner::resume(Block& block, Thread& thread) {
  block_ = &block;
  thread_ = &thread;
  events += std::exchange(thread.asks_again, false) ? 0 : 1;
  auto at = static_cast<unsigned>(number());
  const Index& size = grid_.threads;
  here.thread = {at % size.x, at / size.x % size.y, at / size.x / size.y};
  here.block = block.index;
  thread.fiber.resume();
}

void Runner::begin(void* argument) {
  auto* self = static_cast<Runner*>(argument);
  (*self->body_)();
  self->end();
}

void Runner::end() {
  thread_->copies.finish(0);
  thread_->writes.finish(0);
  thread_->state = State::ended;
  ++events;
  --block_->left;
  Cluster& cluster = *block_->cluster;
  --cluster.left;
  cluster.barrier.come -= thread_->cluster_phase == cluster.phase ? 1 : 0;
  for (Those those : {Those::warp, Those::block}) {
    --meeting_of(those).alive;
    close(those);
  }
  close_cluster();
  thread_->fiber.pause();
}

std::pair<int, int> Runner::members(Those those, int number) const {
  int size = those == Those::warp ? kWarpThreads : threads_;
  int first = number / size * size;
  return {first, std::min(size, threads_ - first)};
}

bool Runner::close(Those those) {
  Meeting& meeting = meeting_of(those);
  if (meeting.come == 0 || meeting.come < meeting.alive) {
    return false;
  }
  if (meeting.act != nullptr) {
    auto [first, size] = members(those, number());
    for (int i = 0; i < size; ++i) {
      const Thread& member = block_->threads[static_cast<size_t>(first + i)];
      given_[static_cast<size_t>(i)] = member.state == State::ended ? nullptr : member.given;
    }
    meeting.act(given_.data(), size);
  }
  meeting.let_go();
  ++events;
  return true;
}

void Runner::close_cluster() {
  Cluster& cluster = *block_->cluster;
  if (cluster.barrier.come > 0 && cluster.barrier.come >= cluster.left) {
    ++cluster.phase;
    cluster.barrier.let_go();
    ++events;
  }
}

void run_grid(const Grid& grid, const std::function<void()>& thread) {
  runner.run(grid, thread);
}

}  // namespace snug::cuda_on_host
