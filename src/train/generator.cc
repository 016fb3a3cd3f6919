// Greedy and sampled generation.
#include "train/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "compile/phases.h"
#include "program/names.h"

namespace snug {
namespace {

std::array<int32_t, 2> one_sequence(int64_t tokens) {
  return {0, static_cast<int32_t>(tokens)};
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

// If not, none of them means anything, and the likeliest would be any.
bool all_finite(std::span<const float> logits) {
  return std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

Decoding::Decoding(Executor& executor, std::span<const int32_t> source) : executor_(executor) {
  if (!executor.has(kGeneratePhase, kSourceOffsets)) {
    return;
  }
  source_tokens_ = static_cast<int64_t>(source.size());
  const std::array<int32_t, 2> offsets = one_sequence(source_tokens_);
  executor_.write_values<int32_t>(kEncodePhase, kSourceIds, source);
  executor_.write_values<int32_t>(kEncodePhase, kSourceOffsets, offsets);
  executor_.run(kEncodePhase, extents(0));
}

std::vector<float> Decoding::step(std::span<const int32_t> tokens) {
  auto count = static_cast<int64_t>(tokens.size());
  write_inputs(tokens);
  executor_.run(kGeneratePhase, extents(count));
  cached_ += count;
  Tensor logits = executor_.tensor(kGeneratePhase, kLogits);
  std::vector<std::byte> raw(static_cast<size_t>(logits.bytes()));
  executor_.read(kGeneratePhase, kLogits, raw);
  std::vector<float> values(static_cast<size_t>(logits.elements()));
  convert(logits.dtype, raw.data(), DType::f32, values.data(), logits.elements());
  return values;
}

void Decoding::write_inputs(std::span<const int32_t> tokens) {
  auto count = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(cached_));
  const std::array<int32_t, 1> last = {static_cast<int32_t>(count - 1)};
  // Not every model has every input.
  auto write = [&](const char* name, std::span<const int32_t> values) {
    if (executor_.has(kGeneratePhase, name)) {
      executor_.write_values<int32_t>(kGeneratePhase, name, values);
    }
  };
  write(kIds, tokens);
  write(kPositions, positions);
  write(kSlots, positions);
  write(kOffsets, one_sequence(count));
  write(kCachedOffsets, one_sequence(cached_ + count));
  write(kSourceOffsets, one_sequence(source_tokens_));
  write(kLastRows, last);
}

Extents Decoding::extents(int64_t tokens) const {
  Extents extents{};
  extents[static_cast<size_t>(Extent::tokens)] = tokens;
  extents[static_cast<size_t>(Extent::source_tokens)] = source_tokens_;
  extents[static_cast<size_t>(Extent::sequences)] = 1;
  extents[static_cast<size_t>(Extent::offsets)] = 2;
  extents[static_cast<size_t>(Extent::cached_tokens)] = cached_ + tokens;
  return extents;
}

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

std::vector<int32_t> generate(Executor& executor, const Prompt& prompt, const SamplingOptions& options,
                              const std::function<bool(int32_t)>& on_token) {
  SNUG_CHECK(!prompt.tokens.empty(), "generation needs at least one token to start from");
  Rng rng(options.seed);
  std::vector<int32_t> made;
  Decoding decoding(executor, prompt.source);
  std::vector<float> logits = decoding.step(prompt.tokens);
  while (static_cast<int64_t>(made.size()) < options.max_new_tokens) {
    if (!all_finite(logits)) {
      if (options.ends_if_not_finite) {
        break;
      }
      throw bad_input(fmt::format(
          "the model's logits behind position {} are not finite: its weights or the adapter's hold NaN "
          "or infinity, or its values exceed the dtype (try --dtype fp32)",
          prompt.tokens.size() + made.size()));
    }
    int32_t next = sample(logits, options, rng);
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), next) != options.stop_ids.end()) {
      break;
    }
    made.push_back(next);
    if ((on_token && !on_token(next)) || static_cast<int64_t>(made.size()) == options.max_new_tokens) {
      break;
    }
    logits = decoding.step({&next, 1});
  }
  return made;
}

}  // namespace snug
