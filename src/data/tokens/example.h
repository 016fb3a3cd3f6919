// One training example: tokens, and which of them are learned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace snug {

// A position without a target takes no part in the loss. The number is the one that everyone uses.
inline constexpr int32_t kNoTarget = -100;

// A token's id, and whether it is learned: to be predicted from what stands before it. Both in the 32 bits
// in which they lie on disk.
class TokenWord {
 public:
  TokenWord() = default;
  TokenWord(int32_t id, bool learned)
      : bits_(static_cast<uint32_t>(id) | (learned ? kLearnedBit : uint32_t{0})) {}

  int32_t id() const { return static_cast<int32_t>(bits_ & ~kLearnedBit); }
  bool is_learned() const { return (bits_ & kLearnedBit) != 0; }
  bool operator==(const TokenWord&) const = default;

 private:
  static constexpr uint32_t kLearnedBit = uint32_t{1} << 31;
  uint32_t bits_ = 0;
};

struct Example {
  std::vector<TokenWord> tokens;
  std::vector<TokenWord> source = {};  // what an encoder reads; empty for a decoder-only model
  int64_t unfound_answers = 0;         // not learned: the chat template changed them beyond recognition

  // Behind an encoder the decoder starts from a token of its own, so that even the first token has something
  // before it; else nothing stands before the first, and it is never predicted.
  int64_t learned_tokens() const {
    size_t first = source.empty() ? 1 : 0;
    return tokens.size() <= first
               ? 0
               : std::count_if(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end(),
                               [](TokenWord word) { return word.is_learned(); });
  }
};

inline void append_tokens(std::vector<TokenWord>& tokens, const std::vector<int32_t>& ids, bool learned) {
  for (int32_t id : ids) {
    tokens.emplace_back(id, learned);
  }
}

// All ids from `learned_begin` on are learned.
inline Example make_example(const std::vector<int32_t>& ids, int64_t learned_begin) {
  Example example;
  for (size_t i = 0; i < ids.size(); ++i) {
    example.tokens.emplace_back(ids[i], static_cast<int64_t>(i) >= learned_begin);
  }
  return example;
}

// For a model with an encoder: `source` is read, all of `answer` is learned.
inline Example make_pair_example(const std::vector<int32_t>& source, const std::vector<int32_t>& answer) {
  Example example;
  append_tokens(example.source, source, false);
  append_tokens(example.tokens, answer, true);
  return example;
}

}  // namespace snug
