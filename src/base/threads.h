// Parallel loops on the host. OpenMP, so that OpenBLAS and our loops share one pool of threads.
#pragma once

#include <omp.h>

#include <cstdint>

namespace snug {

// How many threads loops and GEMMs use; 0 means one per available core.
void set_thread_count(int count);
int thread_count();

// Calls body(first, last) on consecutive pieces of [0, count). The split depends on the thread count
// only, and each index is visited once: results that do not cross indices are the same on any machine.
// Loops shorter than `grain` run on the calling thread.
template <typename Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  int threads = thread_count();
  if (threads == 1 || count < 2 * grain || omp_in_parallel() != 0) {
    if (count > 0) {
      body(int64_t{0}, count);
    }
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    int64_t n = omp_get_num_threads();
    int64_t i = omp_get_thread_num();
    int64_t first = count * i / n;
    int64_t last = count * (i + 1) / n;
    if (first < last) {
      body(first, last);
    }
  }
}

}  // namespace snug
