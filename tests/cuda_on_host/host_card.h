// The card that the host stands in for: SNUG_HOST_CARD is its compute capability, 75, 80, 89 or 90 (Hopper,
// the default).
#pragma once

#include <cstddef>

namespace snug::cuda_on_host {

inline constexpr size_t kCardBytes = size_t{8} << 30;

int capability();
// That Hopper's kernels can be launched with: too few where the card is none.
int most_threads_of_hopper();
// Of so many blocks, as the H200 has them.
int clusters_at_once(unsigned blocks);

}  // namespace snug::cuda_on_host
