// What is asked for now and happens later.
#include "cuda_on_host/runner.h"

namespace snug::cuda_on_host {

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
