// Classes of batches whose numbers of tokens are nearly the same. What has to be chosen for a number of
// tokens is chosen once a class, so that nothing is chosen any more after some steps, however lengths change.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/bytes.h"

namespace snug::cuda {

// The largest number of tokens in the class of `tokens`: the next multiple of a sixteenth of the power of two
// that is not above them, so at most a sixteenth more. Up to 32 every number is a class, where most of what
// is generated lies; powers of two, and up to 32 times one, are the largest of theirs.
constexpr int64_t size_class_of(int64_t tokens) {
  constexpr int64_t kClassesAnOctave = 16;
  int64_t octave = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(tokens, 1))));
  return align_up(tokens, std::max<int64_t>(octave / kClassesAnOctave, 1));
}

}  // namespace snug::cuda
