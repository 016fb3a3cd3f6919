// Text of tokens that arrive one by one, never with half a character.
#include "text/tokenizer/stream_decoder.h"

#include <utility>

#include "base/utf8.h"

namespace snug {

std::string StreamDecoder::push(int32_t id) {
  if (skip_special_tokens_ && tokenizer_.is_special(id)) {
    return "";
  }
  std::string bytes = tokenizer_.bytes(id, at_start_);
  at_start_ = at_start_ && tokenizer_.piece(id).empty();
  waiting_ += bytes;
  size_t printable = 0;
  while (printable < waiting_.size()) {
    Utf8Unit unit = first_utf8_unit(std::string_view(waiting_).substr(printable));
    if (unit.status == Utf8Status::incomplete) {
      break;
    }
    printable += unit.length_bytes;
  }
  std::string text = replace_invalid_utf8(std::string_view(waiting_).substr(0, printable));
  waiting_.erase(0, printable);
  return text;
}

std::string StreamDecoder::finish() {
  at_start_ = true;
  return replace_invalid_utf8(std::exchange(waiting_, ""));
}

}  // namespace snug
