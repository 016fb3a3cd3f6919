// Greedy and sampled generation.
#include "train/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "compile/phases.h"

namespace snug {
namespace {

// Runs `tokens` as the continuation of `cached` tokens already in the cache; returns the last one's logits.
std::vector<float> step(Executor& executor, std::span<const int32_t> tokens, int64_t cached) {
  auto count = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(cached));
  const std::array<int32_t, 2> offsets = {0, static_cast<int32_t>(count)};
  const std::array<int32_t, 2> cached_offsets = {0, static_cast<int32_t>(cached + count)};
  const std::array<int32_t, 1> last = {static_cast<int32_t>(count - 1)};
  executor.write_values<int32_t>(kGeneratePhase, "ids", tokens);
  executor.write_values<int32_t>(kGeneratePhase, "positions", positions);
  executor.write_values<int32_t>(kGeneratePhase, "slots", positions);
  executor.write_values<int32_t>(kGeneratePhase, "offsets", offsets);
  executor.write_values<int32_t>(kGeneratePhase, "cached_offsets", cached_offsets);
  executor.write_values<int32_t>(kGeneratePhase, "last_rows", last);

  Extents extents{};
  extents[static_cast<size_t>(Extent::tokens)] = count;
  extents[static_cast<size_t>(Extent::sequences)] = 1;
  extents[static_cast<size_t>(Extent::offsets)] = 2;
  extents[static_cast<size_t>(Extent::cached_tokens)] = cached + count;
  executor.run(kGeneratePhase, extents);

  Tensor logits = executor.tensor(kGeneratePhase, "logits");
  std::vector<std::byte> raw(static_cast<size_t>(logits.elements() * size_of(logits.dtype)));
  executor.read(kGeneratePhase, "logits", raw);
  std::vector<float> values(static_cast<size_t>(logits.elements()));
  convert(logits.dtype, raw.data(), DType::f32, values.data(), logits.elements());
  return values;
}

struct Candidate {
  float probability;
  int32_t id;
};

// Probabilities, most likely first, cut to top_k and top_p.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options) {
  std::vector<Candidate> all(logits.size());
  float largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    float value = std::exp((logits[i] - largest) / static_cast<float>(options.temperature));
    all[i] = {value, static_cast<int32_t>(i)};
    sum += value;
  }
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
  });
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < all.size()) {
    all.resize(static_cast<size_t>(options.top_k));
  }
  float kept = 0;
  size_t count = 0;
  while (count < all.size() && (count == 0 || kept < static_cast<float>(options.top_p) * sum)) {
    kept += all[count++].probability;
  }
  all.resize(count);
  return all;
}

}  // namespace

int32_t sample(std::span<const float> logits, const SamplingOptions& options, Rng& rng) {
  if (options.temperature <= 0) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::vector<Candidate> choices = candidates(logits, options);
  float total = std::accumulate(choices.begin(), choices.end(), 0.0F,
                                [](float sum, const Candidate& c) { return sum + c.probability; });
  float wanted = rng.uniform() * total;
  for (const Candidate& choice : choices) {
    wanted -= choice.probability;
    if (wanted < 0) {
      return choice.id;
    }
  }
  return choices.back().id;
}

std::vector<int32_t> generate(Executor& executor, std::span<const int32_t> prompt,
                              const SamplingOptions& options, const std::function<bool(int32_t)>& on_token) {
  SNUG_CHECK(!prompt.empty(), "generation needs at least one token to start from");
  Rng rng(options.seed);
  std::vector<int32_t> made;
  std::vector<float> logits = step(executor, prompt, 0);
  while (static_cast<int64_t>(made.size()) < options.max_new_tokens) {
    int32_t next = sample(logits, options, rng);
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), next) != options.stop_ids.end()) {
      break;
    }
    made.push_back(next);
    if ((on_token && !on_token(next)) || static_cast<int64_t>(made.size()) == options.max_new_tokens) {
      break;
    }
    logits = step(executor, {&next, 1}, static_cast<int64_t>(prompt.size() + made.size()) - 1);
  }
  return made;
}

std::vector<float> last_logits(Executor& executor, std::span<const int32_t> tokens) {
  return step(executor, tokens, 0);
}

}  // namespace snug
