// Text generation over the generate phase: one sequence, token by token, with a kv-cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "exec/executor.h"

namespace snug {

struct SamplingOptions {
  int64_t max_new_tokens = 100;
  double temperature = 0;  // 0: greedy
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  uint64_t seed = 0;
  std::vector<int32_t> stop_ids;
};

// One token drawn from logits; `temperature` 0 takes the largest.
int32_t sample(std::span<const float> logits, const SamplingOptions& options, Rng& rng);

// Calls `on_token` for each new token until it returns false, a stop id comes, or max_new_tokens are made.
// Returns the new tokens, without the stop id. The executor's plan must have been made for at least
// prompt + max_new_tokens tokens.
std::vector<int32_t> generate(Executor& executor, std::span<const int32_t> prompt,
                              const SamplingOptions& options,
                              const std::function<bool(int32_t)>& on_token = nullptr);

// Logits of the last of `tokens`, computed without remembering anything from before.
std::vector<float> last_logits(Executor& executor, std::span<const int32_t> tokens);

}  // namespace snug
