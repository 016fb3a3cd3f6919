// Parallel loops on the host, on one pool of threads that sleep while there is nothing to do.
#pragma once

#include <atomic>
#include <cstdint>

namespace snug {

// OpenBLAS ends a program in which more than some 600 threads call it at once.
inline constexpr int kMostThreads = 512;

// How many threads loops and GEMMs use; 0 means as many as the environment's SNUG_THREADS says, or one per
// available core.
void set_thread_count(int count);
int thread_count();

// Whether the calling thread is inside a loop of this file. Loops inside loops stay on their thread.
bool in_parallel();

// Calls call(body, part) once for each part in [0, parts), at most kMostThreads of them, and returns when all
// are done. Which thread takes a part is open: one that is free takes what another has not begun, so nobody
// waits for a thread that does not get a core. Must not throw.
void run_parts(int parts, void (*call)(const void* body, int part), const void* body);

template <typename Body>
void for_each_part(int parts, const Body& body) {
  run_parts(
      parts, [](const void* given, int part) { (*static_cast<const Body*>(given))(part); }, &body);
}

// Calls body(first, last) on consecutive pieces of [0, count). The split depends on the thread count
// only, and each index is visited once: results that do not cross indices are the same on any machine.
// Loops shorter than `grain` run on the calling thread.
template <typename Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  int threads = thread_count();
  if (threads == 1 || count < 2 * grain || in_parallel()) {
    if (count > 0) {
      body(int64_t{0}, count);
    }
    return;
  }
  for_each_part(threads, [&](int64_t part) {
    int64_t first = count * part / threads;
    int64_t last = count * (part + 1) / threads;
    if (first < last) {
      body(first, last);
    }
  });
}

// For items of unequal length, with scratch memory: calls start(slot) for each slot in [0, slots), at most
// kMostThreads, which returns the function to call with the index of one item after the other, until there
// are no more.
template <typename Start>
void parallel_items(int64_t count, int slots, const Start& start) {
  std::atomic<int64_t> next{0};
  for_each_part(slots, [&](int slot) {
    int64_t index = next.fetch_add(1, std::memory_order_relaxed);
    if (index >= count) {
      return;
    }
    auto run_item = start(slot);
    for (; index < count; index = next.fetch_add(1, std::memory_order_relaxed)) {
      run_item(index);
    }
  });
}

}  // namespace snug
