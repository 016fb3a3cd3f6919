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
  bool ends_if_not_finite = false;  // logits that are not finite end the text; else they are an error
};

// One token drawn from logits; `temperature` 0 takes the largest.
int32_t sample(std::span<const float> logits, const SamplingOptions& options, Rng& rng);

// What the answer follows: the tokens that the decoder begins with, and what an encoder reads first, if there
// is one.
struct Prompt {
  std::vector<int32_t> tokens;
  std::vector<int32_t> source = {};
};

// One sequence on its way: the encoder runs once, over `source`, and the decoder step by step behind it.
class Decoding {
 public:
  Decoding(Executor& executor, std::span<const int32_t> source);
  // Runs `tokens` as the continuation of all steps before; returns the last one's logits.
  std::vector<float> step(std::span<const int32_t> tokens);

 private:
  void write_inputs(std::span<const int32_t> tokens);
  Extents extents(int64_t tokens) const;

  Executor& executor_;
  int64_t source_tokens_ = 0;
  int64_t cached_ = 0;
};

// Calls `on_token` for each new token until it returns false, a stop id comes, or max_new_tokens are made.
// Returns the new tokens, without the stop id. The executor's plan must have been made for at least
// prompt + max_new_tokens tokens.
std::vector<int32_t> generate(Executor& executor, const Prompt& prompt, const SamplingOptions& options,
                              const std::function<bool(int32_t)>& on_token = nullptr);

}  // namespace snug
