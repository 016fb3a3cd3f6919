// What matrix products take as scratch.
#pragma once

#include <cstdint>

namespace snug::cuda {

// What every product may use: NVIDIA's recommendation for Hopper, and ample for the others. The same for all
// cards, so that a plan does not depend on which one it is made on.
inline constexpr int64_t kBlasWorkspaceBytes = int64_t{32} << 20;

}  // namespace snug::cuda
