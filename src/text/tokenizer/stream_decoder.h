// Text of tokens that arrive one by one, never with half a character: bytes wait until their character is
// whole.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace snug {

class StreamDecoder {
 public:
  // The tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

  // What can be printed now; "" while a character is incomplete.
  std::string push(int32_t id);
  // The rest: U+FFFD if the last character never became whole. The decoder is as new afterwards.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  bool at_start_ = true;
  std::string waiting_;  // the first bytes of one character
};

}  // namespace snug
