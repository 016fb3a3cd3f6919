// Byte-pair encoding: over bytes (GPT-2, Llama 3, Qwen), or over characters, those without an id as bytes
// where the vocabulary has them (Llama 2, Mistral).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/bpe_merges.h"
#include "text/tokenizer/file.h"
#include "text/tokenizer/word_model.h"

namespace snug {

class BpeModel : public WordModel {
 public:
  // `byte_level`: words are bytes, and the vocabulary is written in the byte alphabet.
  BpeModel(const TokenizerFile& file, bool byte_level);

  void encode_word(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const override;
  int32_t unknown_id() const override { return unknown_id_; }

 private:
  static constexpr int32_t kNoId = -1;

  void read_alphabet(const TokenizerFile& file);
  void decide_cuts(const TokenizerFile& file);
  void encode_uncut(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const;
  void merge_word(std::string_view word, EncodeScratch& scratch) const;
  void append_bytes(std::string_view word, std::vector<int32_t>& symbols) const;
  void append_characters(std::string_view word, std::vector<int32_t>& symbols) const;
  int32_t character_id(uint32_t codepoint) const;
  bool append_fallback(std::string_view character, std::vector<int32_t>& symbols) const;

  bool byte_level_;
  BpeMerges merges_;
  std::array<int32_t, 256> byte_ids_{};  // of the byte alphabet, or of "<0x00>" and its like
  std::array<int32_t, 128> ascii_ids_{};
  std::unordered_map<uint32_t, int32_t> character_ids_;
  int32_t unknown_id_ = kNoId;
  bool fuse_unknown_ = false;
  bool byte_fallback_ = false;
  std::unordered_map<std::string, int32_t> whole_words_;  // filled only where the file says "ignore_merges"
  // Vocabularies of SentencePiece's kind have no piece with a space sign inside: a long text can be cut
  // before each, and its words can be cached.
  bool cut_at_spaces_ = false;
};

}  // namespace snug
