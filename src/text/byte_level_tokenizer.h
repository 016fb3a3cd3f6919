// Byte-level BPE: words are sequences of bytes, so every text can be encoded and comes back byte for byte.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/bpe_merges.h"
#include "text/byte_level_splitter.h"
#include "text/tokenizer.h"

namespace snug {

class ByteLevelTokenizer : public Tokenizer {
 public:
  ByteLevelTokenizer(const TokenizerFile& file, const std::filesystem::path& model_folder);

  std::string bytes(int32_t id) const override;

 private:
  // Looked up by string_view, without making a string.
  struct WordHash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the name the library looks for
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
  };
  template <typename Value>
  using WordMap = std::unordered_map<std::string, Value, WordHash, std::equal_to<>>;

  void encode_plain(std::string_view text, bool at_start, std::vector<int32_t>& ids) const override;
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;
  std::vector<int32_t> merge_word(std::string_view word) const;

  ByteLevelSplitter splitter_;
  BpeMerges merges_;
  std::array<std::optional<int32_t>, 256> byte_ids_;
  std::optional<int32_t> unknown_id_;
  bool fuse_unknown_ = false;
  WordMap<int32_t> whole_words_;  // filled only where the file says "ignore_merges"
  std::vector<std::string> token_bytes_;

  // Texts repeat their words; merging each once is most of the speed. Bounded: emptied when it is full.
  mutable std::mutex cache_mutex_;
  mutable WordMap<std::vector<int32_t>> cache_;
};

}  // namespace snug
