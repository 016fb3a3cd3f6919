// Text to token ids and back.
#include "text/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "io/printable.h"
#include "text/tokenizer/bpe_model.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/unigram_model.h"

namespace snug {

namespace {

// A new kind of model adds a line here.
std::unique_ptr<WordModel> make_model(const TokenizerFile& file, bool byte_level) {
  if (file.model_type == "BPE") {
    return std::make_unique<BpeModel>(file, byte_level);
  }
  if (file.model_type == "Unigram" && !byte_level) {
    return std::make_unique<UnigramModel>(file);
  }
  throw bad_input(fmt::format(
      "{}: model: the tokenizer is of the kind '{}'{}, which is not supported; snug reads BPE and Unigram.",
      file.path, printable(file.model_type), byte_level ? " with ByteLevel" : ""));
}

std::string in_byte_alphabet(std::string_view text) {
  std::string result;
  for (char byte : text) {
    result += byte_alphabet()[static_cast<uint8_t>(byte)];
  }
  return result;
}

}  // namespace

// A scratch of one's own for the time of one call.
class Tokenizer::ScratchLease {
 public:
  explicit ScratchLease(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    std::lock_guard<std::mutex> lock(tokenizer_.scratch_mutex_);
    if (!tokenizer_.scratches_.empty()) {
      scratch_ = std::move(tokenizer_.scratches_.back());
      tokenizer_.scratches_.pop_back();
    }
  }
  ~ScratchLease() {
    if (scratch_) {
      std::lock_guard<std::mutex> lock(tokenizer_.scratch_mutex_);
      tokenizer_.scratches_.push_back(std::move(scratch_));
    }
  }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;

  EncodeScratch& get() {
    if (!scratch_) {
      scratch_ = std::make_unique<EncodeScratch>();
    }
    return *scratch_;
  }

 private:
  const Tokenizer& tokenizer_;
  std::unique_ptr<EncodeScratch> scratch_;
};

Tokenizer::Tokenizer(const TokenizerFile& file, const std::filesystem::path& model_folder)
    : ids_(file.vocabulary),
      normalizer_(Normalizer::from_json(file.part("normalizer"), file.path)),
      pre_tokenizer_(PreTokenizer::from_json(file.part("pre_tokenizer"), file.path)),
      model_(make_model(file, pre_tokenizer_.is_byte_level())),
      decoder_(Decoder::from_json(file.part("decoder"), file.path)) {
  read_added_tokens(file);
  special_ =
      read_special_tokens(model_folder, file, [this](const std::string& piece) { return id_of(piece); });
  check_special_tokens(model_folder);
}

void Tokenizer::read_added_tokens(const TokenizerFile& file) {
  std::vector<AddedToken> added = added_tokens_from_json(file.part("added_tokens"), file.path);
  int64_t size = 0;
  for (const auto& [piece, id] : ids_) {
    size = std::max<int64_t>(size, id + 1);
  }
  for (const AddedToken& token : added) {
    size = std::max<int64_t>(size, token.id + 1);
  }
  pieces_.resize(static_cast<size_t>(size));
  specials_.resize(static_cast<size_t>(size));
  for (const auto& [piece, id] : ids_) {
    pieces_[static_cast<size_t>(id)] = piece;
  }
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (AddedToken& token : added) {
    size_t index = static_cast<size_t>(token.id);
    pieces_[index] = token.content;
    ids_[token.content] = token.id;
    specials_[index] = token.special;
    if (token.normalized) {
      token.content = normalizer_.apply(token.content);
    }
    if (pre_tokenizer_.is_byte_level()) {  // added tokens are not written in the byte alphabet
      decoder_pieces_[token.id] = in_byte_alphabet(pieces_[index]);
    } else if (token.content != pieces_[index]) {
      decoder_pieces_[token.id] = token.content;
    }
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  raw_matcher_ = AddedTokenMatcher(std::move(raw));
  normalized_matcher_ = AddedTokenMatcher(std::move(normalized));
}

void Tokenizer::check_special_tokens(const std::filesystem::path& model_folder) const {
  for (const std::vector<int32_t>& ids :
       {special_.stop_ids, special_.opening_ids, special_.closing_ids,
        special_.bos_id ? std::vector<int32_t>{*special_.bos_id} : std::vector<int32_t>{}}) {
    for (int32_t id : ids) {
      if (piece(id).empty()) {
        throw bad_input(fmt::format(
            "{}: the config files name the special token id {}, but the tokenizer has no such token (its ids "
            "end "
            "at {}). config.json, generation_config.json and tokenizer.json must come from the same model.",
            model_folder.string(), id, vocabulary_size() - 1));
      }
    }
  }
}

std::string Tokenizer::piece(int32_t id) const {
  return id >= 0 && id < vocabulary_size() ? pieces_[static_cast<size_t>(id)] : "";
}

std::optional<int32_t> Tokenizer::id_of(const std::string& piece) const {
  auto found = ids_.find(piece);
  return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < vocabulary_size() && specials_[static_cast<size_t>(id)];
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<int32_t> ids;
  if (add_special_tokens) {
    ids = special_.opening_ids;
  }
  encode_text(text, false, ids);
  if (add_special_tokens) {
    ids.insert(ids.end(), special_.closing_ids.begin(), special_.closing_ids.end());
  }
  return ids;
}

std::vector<int32_t> Tokenizer::encode_continuation(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_text(text, true, ids);
  return ids;
}

void Tokenizer::encode_text(std::string_view text, bool continues, std::vector<int32_t>& ids) const {
  ScratchLease lease(*this);
  EncodeScratch& scratch = lease.get();
  if (valid_utf8_prefix_bytes(text) != text.size()) {
    scratch.repaired = replace_invalid_utf8(text);
    text = scratch.repaired;
  }
  ids.reserve(ids.size() + text.size() / 3);
  PieceContext context{.at_text_start = true, .continues = continues};
  WordVisitor encode_word = [&](std::string_view word) { model_->encode_word(word, scratch, ids); };
  auto take_piece = [&](std::string_view piece, const AddedToken* token) {
    if (token != nullptr) {
      ids.push_back(token->id);
    } else {
      pre_tokenizer_.split(piece, context, encode_word);
    }
    context = {.at_text_start = false, .continues = false};
  };
  raw_matcher_.split(text, [&](std::string_view piece, const AddedToken* token) {
    if (token != nullptr) {
      take_piece(piece, token);
    } else {
      normalized_matcher_.split(normalizer_.apply(piece, context.continues, scratch.normalized), take_piece);
    }
  });
}

std::string Tokenizer::decoder_piece(int32_t id) const {
  auto other = decoder_pieces_.find(id);
  return other == decoder_pieces_.end() ? pieces_[static_cast<size_t>(id)] : other->second;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> pieces;
  pieces.reserve(ids.size());
  for (int32_t id : ids) {
    if (!piece(id).empty() && !(skip_special_tokens && is_special(id))) {
      pieces.push_back(decoder_piece(id));
    }
  }
  return decoder_.decode(std::move(pieces));
}

std::string Tokenizer::bytes(int32_t id, bool at_start) const {
  return piece(id).empty() ? "" : decoder_.decode_one(decoder_piece(id), at_start);
}

}  // namespace snug
