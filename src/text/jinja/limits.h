// What a template may cost. Templates come with downloaded models, so work, memory and depth are bounded.
#pragma once

#include <cstdint>

namespace snug::jinja {

struct Limits {
  int64_t steps = 10'000'000;          // expressions, loop rounds, items touched, 64 bytes of text read
  int64_t bytes = int64_t{512} << 20;  // of text and values made in all, also those that are gone again
  int depth = 500;                     // of expressions, blocks and macros in each other
};

}  // namespace snug::jinja
