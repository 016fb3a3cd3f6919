// A byte-level tokenizer small enough to follow by hand, written to disk and loaded as any other.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "io/file_fixtures.h"
#include "io/json.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {

// Ids:  0 a  1 b  2 c  3 space  4 newline  5 ab  6 abc  7 " ab"  8 d  9 0xC3  10 0xA9  11 "é"  12 "'"  13 s
//      14 "'s"  20 <s>  21 </s>  22 <tool> (not special)
// Merges, best first: a+b, ab+c, space+ab, 0xC3+0xA9, '+s
inline Json tiny_tokenizer_json() {
  return Json::parse(R"({
    "version": "1.0",
    "added_tokens": [
      {"id": 20, "content": "<s>", "special": true, "normalized": false, "single_word": false, "lstrip": false,
       "rstrip": false},
      {"id": 21, "content": "</s>", "special": true, "normalized": false, "single_word": false, "lstrip": false,
       "rstrip": false},
      {"id": 22, "content": "<tool>", "special": false, "normalized": true, "single_word": false,
       "lstrip": false, "rstrip": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {
      "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
      "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
      "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "Ċ": 4, "ab": 5, "abc": 6, "Ġab": 7, "d": 8, "Ã": 9, "©": 10,
                "Ã©": 11, "'": 12, "s": 13, "'s": 14},
      "merges": [["a", "b"], ["ab", "c"], ["Ġ", "ab"], ["Ã", "©"], ["'", "s"]]}})");
}

class TinyTokenizer {
 public:
  explicit TinyTokenizer(const Json& json = tiny_tokenizer_json(),
                         const Json& config = {{"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}}) {
    write_raw(folder_ / "tokenizer.json", json.dump());
    write_raw(folder_ / "tokenizer_config.json", config.dump());
  }

  const TemporaryFolder& folder() const { return folder_; }
  std::unique_ptr<Tokenizer> load() const { return load_tokenizer(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

}  // namespace snug
