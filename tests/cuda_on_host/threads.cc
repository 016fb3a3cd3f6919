// What threads do with each other, and with the shared memory of their block.
#include <cstdio>
#include <cstdlib>

#include "cuda_on_host/runner.h"

namespace snug::cuda_on_host {

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
  if (blocks[rank]->left == 0) {
    fail("shared memory of a block that has ended");
  }
  return blocks[rank]->shared + offset;
}

}  // namespace snug::cuda_on_host
