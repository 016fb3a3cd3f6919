// The heart of a tokenizer: how one word becomes ids. A kind of model is one implementation of this.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/word_cache.h"

namespace snug {

// What encoding needs besides the model: one a thread at a time, kept between texts so that nothing is
// allocated for each of them.
struct EncodeScratch {
  std::string repaired;  // the text with U+FFFD for what is not UTF-8
  Normalizer::Buffers normalized;
  WordCache cache;
  std::vector<int32_t> symbols;
  std::vector<uint32_t> previous;  // neighbours among the symbols that are left
  std::vector<uint32_t> next;
  std::vector<uint64_t> queue;
  std::vector<double> scores;  // best path to each byte of a word
};

class WordModel {
 public:
  virtual ~WordModel() = default;
  // Appends the ids of a word, which is UTF-8 and not empty.
  virtual void encode_word(std::string_view word, EncodeScratch& scratch,
                           std::vector<int32_t>& ids) const = 0;
  // What stands for text that the vocabulary cannot write; -1 if there is no such token.
  virtual int32_t unknown_id() const = 0;
};

}  // namespace snug
