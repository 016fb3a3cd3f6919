// One training example: token ids, and at each position the id to predict there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace snug {

// A position without a target takes no part in the loss. The number is the one that everyone uses.
inline constexpr int32_t kNoTarget = -100;

struct Example {
  std::vector<int32_t> ids;      // what the (decoder of the) model reads
  std::vector<int32_t> targets;  // already shifted: targets[i] is ids[i + 1] or kNoTarget; the last has none
  std::vector<int32_t> source = {};  // what an encoder reads; empty for a decoder-only model

  bool has_target() const {
    return std::any_of(targets.begin(), targets.end(), [](int32_t target) { return target != kNoTarget; });
  }
};

// The ids with `learned` are to be predicted, each from what stands before it. The first id of all is never
// predicted: nothing stands before it.
inline Example make_masked_example(std::vector<int32_t> ids, const std::vector<bool>& learned) {
  Example example;
  example.targets.assign(ids.size(), kNoTarget);
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    if (learned[i + 1]) {
      example.targets[i] = ids[i + 1];
    }
  }
  example.ids = std::move(ids);
  return example;
}

// The same, with all ids from `learned_begin` on learned.
inline Example make_example(std::vector<int32_t> ids, int64_t learned_begin) {
  std::vector<bool> learned(ids.size());
  std::fill(learned.begin() + std::min<int64_t>(learned_begin, std::ssize(ids)), learned.end(), true);
  return make_masked_example(std::move(ids), learned);
}

// For a model with an encoder: `source` is read, all of `answer` is learned; the decoder reads it shifted
// right, behind its start token.
inline Example make_pair_example(std::vector<int32_t> source, std::vector<int32_t> answer,
                                 int32_t decoder_start_id) {
  Example example;
  example.source = std::move(source);
  example.ids = {decoder_start_id};
  example.ids.insert(example.ids.end(), answer.begin(), answer.empty() ? answer.end() : answer.end() - 1);
  example.ids.resize(answer.size());
  example.targets = std::move(answer);
  return example;
}

}  // namespace snug
