// The thread count, in one place.
#include "base/threads.h"

#include <algorithm>

namespace snug {
namespace {
int configured_threads = 0;
}

void set_thread_count(int count) {
  configured_threads = std::max(count, 0);
  omp_set_num_threads(thread_count());
}

int thread_count() {
  return configured_threads > 0 ? configured_threads : std::max(omp_get_num_procs(), 1);
}

}  // namespace snug
