// Text to token ids and back, as the model's own tokenizer.json says: added tokens, normalization, splitting
// into words, the ids of each word, special tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/file.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/special_tokens.h"
#include "text/tokenizer/word_model.h"

namespace snug {

// All methods are const and may be called from several threads at once.
class Tokenizer {
 public:
  // `model_folder` may hold tokenizer_config.json and other files that name special tokens.
  Tokenizer(const TokenizerFile& file, const std::filesystem::path& model_folder);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // `add_special_tokens`: with opening_ids() before and closing_ids() after. Bytes that are not UTF-8 count
  // as U+FFFD, as they do wherever such text is read.
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens = false) const;
  // For text that follows other text, as a completion follows its prompt: never with special tokens, nor with
  // the space that some tokenizers put before a text.
  std::vector<int32_t> encode_continuation(std::string_view text) const;

  // Always UTF-8: U+FFFD stands for bytes that make no character. Ids without a token give nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;
  // What one token says in the middle of a text, or at its start; may be part of a character. See
  // StreamDecoder.
  std::string bytes(int32_t id, bool at_start = false) const;

  std::optional<int32_t> bos_id() const { return special_.bos_id; }
  std::optional<int32_t> eos_id() const { return special_.eos_id; }
  // What stands for text that the vocabulary cannot write; -1 if there is no such token.
  int32_t unknown_id() const { return model_->unknown_id(); }
  const std::vector<int32_t>& stop_ids() const { return special_.stop_ids; }
  const std::vector<int32_t>& opening_ids() const { return special_.opening_ids; }
  const std::vector<int32_t>& closing_ids() const { return special_.closing_ids; }

  // The largest id plus one: what an embedding must at least hold. Models often hold more.
  int64_t vocabulary_size() const { return static_cast<int64_t>(pieces_.size()); }
  // The token as the vocabulary writes it ("Ġthe"); "" for an id without one.
  std::string piece(int32_t id) const;
  std::optional<int32_t> id_of(const std::string& piece) const;
  bool is_special(int32_t id) const;

 private:
  class ScratchLease;

  void read_added_tokens(const TokenizerFile& file);
  void encode_text(std::string_view text, bool continues, std::vector<int32_t>& ids) const;
  std::string decoder_piece(int32_t id) const;
  void check_special_tokens(const std::filesystem::path& model_folder) const;

  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::string> pieces_;  // by id
  std::vector<bool> specials_;       // by id
  std::unordered_map<int32_t, std::string>
      decoder_pieces_;  // where the decoder gets another text than pieces_
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<WordModel> model_;
  Decoder decoder_;
  AddedTokenMatcher raw_matcher_;
  AddedTokenMatcher normalized_matcher_;
  SpecialTokens special_;

  mutable std::mutex scratch_mutex_;
  mutable std::vector<std::unique_ptr<EncodeScratch>> scratches_;  // those that no thread is using
};

// The files of a model's folder that tokenizers and chat templates are read from: if none of them changes,
// the same text becomes the same tokens.
std::vector<std::string> text_file_names();

// Reads the tokenizer of a model: its folder, or tokenizer.json (also .gz) or a SentencePiece model itself.
// Throws bad_input, naming what is missing or not supported.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model);

}  // namespace snug
