// A tokenizer.json or a SentencePiece model from arbitrary bytes, then a text through it. Reading ends in a
// tokenizer or in an Error; encoding and decoding never fail, and decode to UTF-8.
//
// The input is the file; if it has a byte 0x1E, what follows that is the text.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer/sentencepiece_file.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace {

constexpr size_t kMaxTextBytes = 4096;

void use(const snug::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids = tokenizer.encode(text, true);
  for (int32_t id : ids) {
    SNUG_CHECK(id >= 0 && id < tokenizer.vocabulary_size(), "an id outside the vocabulary");
  }
  tokenizer.encode_continuation(text);
  std::string decoded = tokenizer.decode(ids, false);
  SNUG_CHECK(snug::valid_utf8_prefix_bytes(decoded) == decoded.size(), "decoded text is not UTF-8");
  snug::StreamDecoder stream(tokenizer);
  for (int32_t id : ids) {
    stream.push(id);
  }
  stream.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  size_t separator = input.rfind('\x1E');
  std::string_view file = input.substr(0, separator);
  std::string_view text =
      separator == std::string_view::npos ? "Hello, wörld 123\n\xFF" : input.substr(separator + 1);
  try {
    snug::TokenizerFile parsed = file.starts_with('{')
                                     ? snug::parse_tokenizer_file(std::string(file), "tokenizer.json")
                                     : snug::parse_sentencepiece_file(file, "tokenizer.model");
    use(snug::Tokenizer(parsed, "no-such-folder"), text.substr(0, kMaxTextBytes));
  } catch (const snug::Error& error) {
    SNUG_CHECK(error.kind() == snug::ErrorKind::bad_input, error.what());
  }
  return 0;
}
