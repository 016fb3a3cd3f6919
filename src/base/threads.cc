// The pool: its threads look for work for a moment after the last loop and then sleep, so that they take
// nothing from other programs, and a loop is not held up by a thread that another program keeps from its
// core.
#include "base/threads.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace snug {
namespace {

// How often a thread looks before it sleeps, some 20 to 80 microseconds: longer than the gaps between the
// loops of a step, shorter than what a busy machine would miss.
constexpr int kLooks = 2000;

int configured_threads = 0;
thread_local bool inside = false;

class InsideLoop {
 public:
  InsideLoop() : before_(inside) { inside = true; }
  ~InsideLoop() { inside = before_; }
  InsideLoop(const InsideLoop&) = delete;
  InsideLoop& operator=(const InsideLoop&) = delete;

 private:
  bool before_;
};

int available_cores() {
  cpu_set_t cores;
  bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  return std::clamp(known ? CPU_COUNT(&cores) : static_cast<int>(std::thread::hardware_concurrency()), 1,
                    kMostThreads);
}

// SNUG_THREADS or one a core.
int usual_threads() {
  int count = 0;
  const char* asked = std::getenv("SNUG_THREADS");
  if (asked != nullptr) {
    std::from_chars(asked, asked + std::strlen(asked), count);
  }
  return count > 0 ? std::min(count, kMostThreads) : available_cores();
}

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Waits until the value is no longer `old`, and returns it.
template <typename Value>
Value wait_for_change(const std::atomic<Value>& value, Value old, int looks) {
  for (int i = 0; i < looks; ++i) {
    Value now = value.load(std::memory_order_acquire);
    if (now != old) {
      return now;
    }
    relax();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

class Pool {
 public:
  // Lives as long as the process: its threads are never joined, only left asleep.
  static Pool& instance() {
    static Pool* pool = new Pool;
    return *pool;
  }

  // False if another thread's loop has the pool.
  bool try_run(int parts, void (*call)(const void*, int), const void* body) {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      return false;
    }
    start_workers(parts - 1);
    call_ = call;
    body_ = body;
    looks_.store(parts <= available_cores_ ? kLooks : 0, std::memory_order_relaxed);
    unfinished_.store(parts, std::memory_order_relaxed);
    uint64_t job =
        (job_.load(std::memory_order_relaxed) / kPartsRadix + 1) * kPartsRadix + static_cast<uint64_t>(parts);
    job_.store(job, std::memory_order_release);
    job_.notify_all();
    take_parts(job, 0);
    for (int left = unfinished_.load(std::memory_order_acquire); left > 0;) {
      left = wait_for_change(unfinished_, left, looks_.load(std::memory_order_relaxed));
    }
    return true;
  }

 private:
  // A job is its number times this, plus how many parts it has, so that both are read at once.
  static constexpr uint64_t kPartsRadix = 1024;
  static_assert(kMostThreads < static_cast<int>(kPartsRadix));

  void start_workers(int wanted) {
    try {
      for (; workers_ < wanted; ++workers_) {
        std::thread([this, first = workers_ + 1] { work(first); }).detach();
      }
    } catch (const std::system_error& error) {
      throw environment_error(
          fmt::format("no more than {} of {} threads could be started ({}); --threads takes a smaller number",
                      workers_ + 1, wanted + 1, error.code().message()));
    }
  }

  void work(int first) {
    inside = true;
    uint64_t job = 0;
    for (;;) {
      job = wait_for_change(job_, job, looks_.load(std::memory_order_relaxed));
      take_parts(job, first);
    }
  }

  // Its own part first, whose data may still be in its core's cache, then what nobody has begun. Parts of a
  // job that is over have all been taken, so a thread that comes late finds nothing, and what a job is made
  // of is read only by those who hold a part of it.
  void take_parts(uint64_t job, int first) {
    auto parts = static_cast<int>(job % kPartsRadix);
    for (int i = 0; i < parts; ++i) {
      int part = (first + i) % parts;
      if (take(taken_[static_cast<size_t>(part)], job)) {
        call_(body_, part);
        if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
          unfinished_.notify_one();
        }
      }
    }
  }

  static bool take(std::atomic<uint64_t>& taken, uint64_t job) {
    uint64_t last = taken.load(std::memory_order_relaxed);
    return last < job && taken.compare_exchange_strong(last, job, std::memory_order_acq_rel);
  }

  std::mutex mutex_;
  int workers_ = 0;
  int available_cores_ = available_cores();
  void (*call_)(const void*, int) = nullptr;
  const void* body_ = nullptr;
  std::atomic<int> looks_{kLooks};
  // Each on a line of its own: one is read by those who wait for work, the other by who waits for its end.
  alignas(64) std::atomic<uint64_t> job_{0};
  alignas(64) std::atomic<int> unfinished_{0};
  std::array<std::atomic<uint64_t>, kMostThreads> taken_{};  // the last job that each part was taken of
};

}  // namespace

void set_thread_count(int count) {
  configured_threads = std::clamp(count, 0, kMostThreads);
}

int thread_count() {
  static const int usual = usual_threads();
  return configured_threads > 0 ? configured_threads : usual;
}

bool in_parallel() {
  return inside;
}

void run_parts(int parts, void (*call)(const void* body, int part), const void* body) {
  SNUG_CHECK(parts <= kMostThreads, "parts are for threads; items are counted by parallel_items");
  bool alone = parts <= 1 || inside;
  InsideLoop guard;
  if (alone || !Pool::instance().try_run(parts, call, body)) {
    for (int part = 0; part < parts; ++part) {
      call(body, part);
    }
  }
}

}  // namespace snug
