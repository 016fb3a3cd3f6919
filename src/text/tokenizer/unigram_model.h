// Unigram (T5 and its kin): of all ways to cut a word into pieces, the one whose scores add up to the most.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/file.h"
#include "text/tokenizer/prefix_trie.h"
#include "text/tokenizer/word_model.h"

namespace snug {

class UnigramModel : public WordModel {
 public:
  explicit UnigramModel(const TokenizerFile& file);

  void encode_word(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const override;
  int32_t unknown_id() const override { return unknown_id_; }

 private:
  static constexpr int32_t kNoId = -1;

  void find_best_path(std::string_view word, EncodeScratch& scratch) const;
  void append_unknown(std::string_view stretch, std::vector<int32_t>& ids) const;
  void cut_word(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const;

  std::string path_;
  PrefixTrie trie_;
  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  int32_t unknown_id_ = kNoId;
  bool byte_fallback_ = false;
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace snug
