// Which thread goes on when.
#include "cuda_on_host/grid.h"

#include <sys/mman.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_on_host/fiber.h"

// Around what kernels declare as __shared__ (device.h), from the linker.
extern std::byte __start_snug_shared;
extern std::byte __stop_snug_shared;

namespace snug::cuda_on_host {
namespace {

constexpr size_t kMostSharedBytes = size_t{227} << 10;
constexpr int kBarriers = 16;
// In which no thread did more than to ask again: one of them may have been answered, and asked for the next
// thing.
constexpr int kMostIdleRounds = 100;

bool is_set(const char* name, std::string_view wanted) {
  const char* value = std::getenv(name);
  return value != nullptr && wanted == value;
}

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

std::byte* map_memory(size_t bytes) {
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    fail("there is no memory for a block");
  }
  return static_cast<std::byte*>(memory);
}

// Memory of blocks that have ended is taken for others.
class Pool {
 public:
  std::byte* take(size_t bytes) {
    std::vector<std::byte*>& free = free_[bytes];
    if (free.empty()) {
      return map_memory(bytes);
    }
    std::byte* memory = free.back();
    free.pop_back();
    return memory;
  }
  void give_back(std::byte* memory, size_t bytes) { free_[bytes].push_back(memory); }

 private:
  std::map<size_t, std::vector<std::byte*>> free_;
};

class Runner {
 public:
  void run(const Grid& grid, const std::function<void()>& body) {
    grid_ = grid;
    body_ = &body;
    here.threads = grid.threads;
    here.blocks = grid.blocks;
    threads_ = static_cast<int>(grid.threads.x * grid.threads.y * grid.threads.z);
    backward_ = is_set("SNUG_HOST_THREADS", "backward");
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
  // The first thread of those whom thread `number` meets, and how many there are.
  std::pair<int, int> members(Those those, int number) const {
    int size = those == Those::warp ? kWarpThreads : threads_;
    int first = number / size * size;
    return {first, std::min(size, threads_ - first)};
  }
  // Whether all have come that have not ended; then they do what they met for, and go on.
  bool close(Those those) {
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

  void close_cluster() {
    Cluster& cluster = *block_->cluster;
    if (cluster.barrier.come > 0 && cluster.barrier.come >= cluster.left) {
      ++cluster.phase;
      cluster.barrier.let_go();
      ++events;
    }
  }

  size_t shared_bytes() const { return grid_.shared_bytes; }

  uint64_t events = 0;

 private:
  void admit(unsigned& next) {
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
  bool has_ended(Cluster& cluster) {
    if (cluster.left > 0) {
      return false;
    }
    for (auto& block : cluster.blocks) {
      pool_.give_back(block->shared, kMostSharedBytes);
      pool_.give_back(block->stacks, static_cast<size_t>(threads_) * Fiber::kStackBytes);
    }
    return true;
  }

  static void begin(void* runner) {
    auto* self = static_cast<Runner*>(runner);
    (*self->body_)();
    self->end();
  }
  // Of the thread that runs now.
  void end() {
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

  // Warp by warp, each as far as it comes.
  void go_on(Block& block) {
    auto warps = static_cast<int>(block.warps.size());
    for (Thread& thread : block.threads) {
      thread.asks_again = std::exchange(thread.paused, false);
    }
    for (int i = 0; i < warps; ++i) {
      int first = (backward_ ? warps - 1 - i : i) * kWarpThreads;
      int size = std::min(kWarpThreads, threads_ - first);
      bool went_on = true;
      while (went_on) {
        went_on = false;
        for (int j = 0; j < size; ++j) {
          Thread& thread = block.threads[static_cast<size_t>(first + (backward_ ? size - 1 - j : j))];
          if (thread.state == State::ready && !thread.paused) {
            resume(block, thread);
            went_on = true;
          }
        }
      }
    }
  }
  void resume(Block& block, Thread& thread) {
    block_ = &block;
    thread_ = &thread;
    events += std::exchange(thread.asks_again, false) ? 0 : 1;
    auto at = static_cast<unsigned>(number());
    const Index& size = grid_.threads;
    here.thread = {at % size.x, at / size.x % size.y, at / size.x / size.y};
    here.block = block.index;
    thread.fiber.resume();
  }

  Grid grid_;
  const std::function<void()>* body_ = nullptr;
  int threads_ = 0;
  bool backward_ = false;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  Pool pool_;
  Block* block_ = nullptr;
  Thread* thread_ = nullptr;
  std::array<void*, 1024> given_{};  // to those who meet
};

// One at a time: kernels are run by the thread that launches them.
Runner runner;

}  // namespace

void run_grid(const Grid& grid, const std::function<void()>& thread) {
  runner.run(grid, thread);
}

int thread_number() {
  return runner.number();
}

void meet(Those those, void* given, Act act) {
  Thread& thread = runner.thread();
  Meeting& meeting = runner.meeting_of(those);
  if (meeting.come > 0 && meeting.act != act) {
    fail("threads that ought to meet do different things");
  }
  meeting.act = act;
  thread.given = given;
  ++meeting.come;
  if (!runner.close(those)) {
    meeting.waiting.push_back(&thread);
    runner.wait();
  }
}

void meet(Those those) {
  meet(those, nullptr, nullptr);
}

void arrive_at(int barrier, int count) {
  Meeting& meeting = runner.block().barriers[static_cast<size_t>(barrier)];
  ++runner.events;
  if (++meeting.come == count) {
    meeting.let_go();
  }
}

void wait_at(int barrier, int count) {
  if (barrier == 0 && count == static_cast<int>(runner.block().threads.size())) {
    meet(Those::block);
    return;
  }
  Meeting& meeting = runner.block().barriers[static_cast<size_t>(barrier)];
  if (meeting.come + 1 == count) {
    arrive_at(barrier, count);
    return;
  }
  ++meeting.come;
  meeting.waiting.push_back(&runner.thread());
  runner.wait();
}

void arrive_at_cluster() {
  Cluster& cluster = *runner.block().cluster;
  runner.thread().cluster_phase = cluster.phase;
  ++cluster.barrier.come;
  runner.close_cluster();
}

void wait_for_cluster() {
  Cluster& cluster = *runner.block().cluster;
  uint64_t arrived = runner.thread().cluster_phase;
  if (arrived + 1 != cluster.phase && arrived != cluster.phase) {
    fail("a thread waits for its cluster without having arrived");
  }
  if (arrived == cluster.phase) {
    cluster.barrier.waiting.push_back(&runner.thread());
    runner.wait();
  }
}

int rank_in_cluster() {
  return runner.block().rank;
}

int blocks_of_cluster() {
  return static_cast<int>(runner.block().cluster->blocks.size());
}

void let_others_go_on() {
  runner.thread().paused = true;
  runner.thread().fiber.pause();
}

void tell_others() {
  ++runner.events;
}

void fail(const char* what) {
  std::fprintf(stderr, "block %u %u %u, thread %u %u %u: %s\n", here.block.x, here.block.y, here.block.z,
               here.thread.x, here.thread.y, here.thread.z, what);
  std::abort();
}

std::byte* dynamic_shared() {
  return runner.block().shared;
}

uint32_t address_in_shared(const void* pointer) {
  std::ptrdiff_t offset = static_cast<const std::byte*>(pointer) - runner.block().shared;
  if (offset < 0 || static_cast<size_t>(offset) > kMostSharedBytes) {
    fail("an address that is not of shared memory");
  }
  return address_in_block(static_cast<uint32_t>(offset), runner.block().rank);
}

std::byte* shared_at(uint32_t address, size_t bytes, size_t alignment) {
  size_t rank = address >> kRankShift;
  size_t offset = address & ((1U << kRankShift) - 1);
  auto& blocks = runner.block().cluster->blocks;
  if (rank >= blocks.size() || offset + bytes > runner.shared_bytes() || offset % alignment != 0) {
    fail("an address beyond the shared memory of the cluster, or one that is not aligned");
  }
  return blocks[rank]->shared + offset;
}

bool happens_late() {
  static const bool value = is_set("SNUG_HOST_WORK", "late");
  return value;
}

void Later::add(std::function<void()> work) {
  if (!happens_late()) {
    work();
    return;
  }
  if (groups_.empty()) {
    groups_.emplace_back();
  }
  groups_.back().push_back(std::move(work));
}

void Later::end_group() {
  if (groups_.empty()) {
    groups_.emplace_back();
  }
  groups_.emplace_back();
}

void Later::finish(size_t left) {
  while (groups_.size() > left + 1) {
    for (auto& work : groups_.front()) {
      work();
    }
    groups_.pop_front();
  }
}

Later& copies_of_thread() {
  return runner.thread().copies;
}

Later& writes_of_thread() {
  return runner.thread().writes;
}

Later& products_of_warp() {
  return runner.block().products[static_cast<size_t>(runner.number() / kWarpThreads)];
}

void copy_for_barrier(uint32_t barrier, std::function<void()> copy) {
  if (!happens_late()) {
    copy();
    return;
  }
  runner.block().cluster->blocks[barrier >> kRankShift]->late_copies[barrier].push_back(std::move(copy));
}

bool finish_copies_for(uint32_t barrier) {
  auto& late = runner.block().cluster->blocks[barrier >> kRankShift]->late_copies;
  auto found = late.find(barrier);
  if (found == late.end()) {
    return false;
  }
  std::vector<std::function<void()>> copies = std::move(found->second);
  late.erase(found);
  for (auto& copy : copies) {
    copy();
  }
  return true;
}

}  // namespace snug::cuda_on_host
