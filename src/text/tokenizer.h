// Text to token ids and back, as the model's own tokenizer.json says. What all kinds share is here: added
// tokens, normalization, special tokens; a kind says how a stretch of plain text becomes ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/normalizer.h"
#include "text/special_tokens.h"
#include "text/tokenizer_file.h"

namespace snug {

// All methods are const and may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // `add_special_tokens`: with opening_ids() before and closing_ids() after. Bytes that are not UTF-8 are
  // encoded as they are.
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens = false) const;
  // For text that follows other text, as a completion follows its prompt: never with special tokens, nor with
  // the space that some tokenizers put before a text.
  std::vector<int32_t> encode_continuation(std::string_view text) const;

  // Always UTF-8: U+FFFD stands for bytes that make no character. Ids without a token give nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;
  // The bytes of one token, which may be part of a character; see StreamDecoder.
  virtual std::string bytes(int32_t id) const = 0;

  std::optional<int32_t> bos_id() const { return special_.bos_id; }
  std::optional<int32_t> eos_id() const { return special_.eos_id; }
  const std::vector<int32_t>& stop_ids() const { return special_.stop_ids; }
  const std::vector<int32_t>& opening_ids() const { return special_.opening_ids; }
  const std::vector<int32_t>& closing_ids() const { return special_.closing_ids; }

  // The largest id plus one: what an embedding must at least hold. Models often hold more.
  int64_t vocabulary_size() const { return static_cast<int64_t>(pieces_.size()); }
  // The token as the vocabulary writes it ("Ġthe"); "" for an id without one.
  std::string piece(int32_t id) const;
  std::optional<int32_t> id_of(const std::string& piece) const;
  bool is_special(int32_t id) const;

 protected:
  Tokenizer(const TokenizerFile& file, const std::filesystem::path& model_folder);

  // Appends the ids of a stretch of normalized text without added tokens; `at_start` is false where the text
  // continues other text.
  virtual void encode_plain(std::string_view text, bool at_start, std::vector<int32_t>& ids) const = 0;

  const std::vector<std::string>& pieces() const { return pieces_; }
  bool is_added(int32_t id) const;

 private:
  enum class TokenClass : uint8_t { ordinary, added, special };
  void encode_text(std::string_view text, bool at_start, std::vector<int32_t>& ids) const;
  void check_special_tokens(const std::filesystem::path& model_folder) const;

  std::unordered_map<std::string, int32_t> ids_;
  std::vector<std::string> pieces_;  // by id
  std::vector<TokenClass> classes_;  // by id
  Normalizer normalizer_;
  AddedTokenMatcher raw_matcher_;
  AddedTokenMatcher normalized_matcher_;
  SpecialTokens special_;
};

// Reads tokenizer.json of a model folder, and the config files beside it. Throws bad_input, naming what is
// missing or not supported.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model_folder);

}  // namespace snug
