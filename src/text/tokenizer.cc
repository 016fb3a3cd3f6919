// Text to token ids and back: what all kinds of tokenizer share.
#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace snug {

Tokenizer::Tokenizer(const TokenizerFile& file, const std::filesystem::path& model_folder)
    : ids_(file.vocabulary), normalizer_(Normalizer::from_json(file.part("normalizer"), file.path)) {
  std::vector<AddedToken> added = added_tokens_from_json(file.part("added_tokens"), file.path);
  int64_t size = 0;
  for (const auto& [piece, id] : ids_) {
    size = std::max<int64_t>(size, id + 1);
  }
  for (const AddedToken& token : added) {
    size = std::max<int64_t>(size, token.id + 1);
  }
  pieces_.resize(static_cast<size_t>(size));
  classes_.resize(static_cast<size_t>(size), TokenClass::ordinary);
  for (const auto& [piece, id] : ids_) {
    pieces_[static_cast<size_t>(id)] = piece;
  }
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (AddedToken& token : added) {
    size_t index = static_cast<size_t>(token.id);
    pieces_[index] = token.content;
    ids_[token.content] = token.id;
    classes_[index] = token.special ? TokenClass::special : TokenClass::added;
    if (token.normalized) {
      token.content = normalizer_.apply(token.content);
      normalized.push_back(std::move(token));
    } else {
      raw.push_back(std::move(token));
    }
  }
  raw_matcher_ = AddedTokenMatcher(std::move(raw));
  normalized_matcher_ = AddedTokenMatcher(std::move(normalized));
  special_ =
      read_special_tokens(model_folder, file, [this](const std::string& piece) { return id_of(piece); });
  check_special_tokens(model_folder);
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
  return id >= 0 && id < vocabulary_size() && classes_[static_cast<size_t>(id)] == TokenClass::special;
}

bool Tokenizer::is_added(int32_t id) const {
  return id >= 0 && id < vocabulary_size() && classes_[static_cast<size_t>(id)] != TokenClass::ordinary;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<int32_t> ids;
  if (add_special_tokens) {
    ids = special_.opening_ids;
  }
  encode_text(text, true, ids);
  if (add_special_tokens) {
    ids.insert(ids.end(), special_.closing_ids.begin(), special_.closing_ids.end());
  }
  return ids;
}

std::vector<int32_t> Tokenizer::encode_continuation(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_text(text, false, ids);
  return ids;
}

void Tokenizer::encode_text(std::string_view text, bool at_start, std::vector<int32_t>& ids) const {
  bool starts = at_start;
  auto plain = [&](std::string_view piece, const AddedToken* token) {
    if (token != nullptr) {
      ids.push_back(token->id);
    } else {
      encode_plain(piece, starts, ids);
    }
    starts = true;  // whatever comes after an added token is a start of its own
  };
  raw_matcher_.split(text, [&](std::string_view piece, const AddedToken* token) {
    if (token != nullptr) {
      plain(piece, token);
    } else {
      normalized_matcher_.split(normalizer_.apply(piece), plain);
    }
  });
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string text;
  for (int32_t id : ids) {
    if (!skip_special_tokens || !is_special(id)) {
      text += bytes(id);
    }
  }
  return replace_invalid_utf8(text);
}

}  // namespace snug
