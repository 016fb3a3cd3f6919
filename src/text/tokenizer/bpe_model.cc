// Byte-pair encoding, over bytes or over characters.
#include "text/tokenizer/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "io/printable.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/unicode/valid_utf8.h"

namespace snug {

namespace {

constexpr std::string_view kSpaceSign = "▁";

void refuse_unknown_parts(const TokenizerFile& file) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string value = json_string(file.model(), key, "", file.path);
    if (!value.empty()) {
      throw bad_input(fmt::format("{}: model.{} is '{}'; snug supports BPE without it.", file.path, key,
                                  printable(value)));
    }
  }
  if (double dropout = json_number(file.model(), "dropout", 0, file.path); dropout != 0) {
    throw bad_input(fmt::format("{}: model.dropout is {}; snug encodes without dropout. Set it to null.",
                                file.path, dropout));
  }
}

// A space sign after anything but another one.
bool has_space_inside(std::string_view piece) {
  for (size_t found = piece.find(kSpaceSign); found != std::string_view::npos;
       found = piece.find(kSpaceSign, found + 1)) {
    if (found > 0 && !piece.substr(0, found).ends_with(kSpaceSign)) {
      return true;
    }
  }
  return false;
}

}  // namespace

BpeModel::BpeModel(const TokenizerFile& file, bool byte_level)
    : byte_level_(byte_level), merges_(file.merges, file.vocabulary, file.path) {
  refuse_unknown_parts(file);
  fuse_unknown_ = json_bool(file.model(), "fuse_unk", false, file.path);
  byte_fallback_ = json_bool(file.model(), "byte_fallback", false, file.path);
  std::string unknown = json_string(file.model(), "unk_token", "", file.path);
  if (auto found = file.vocabulary.find(unknown); found != file.vocabulary.end()) {
    unknown_id_ = found->second;
  } else if (!unknown.empty()) {
    throw bad_input(fmt::format("{}: model.unk_token is '{}', which is not in the vocabulary.", file.path,
                                printable(unknown)));
  }
  read_alphabet(file);
  if (json_bool(file.model(), "ignore_merges", false, file.path)) {
    for (const auto& [piece, id] : file.vocabulary) {
      std::optional<std::string> word = byte_level_ ? bytes_of_piece(piece) : piece;
      if (word) {
        whole_words_.emplace(*word, id);
      }
    }
  } else if (!byte_level_) {
    decide_cuts(file);
  }
}

void BpeModel::read_alphabet(const TokenizerFile& file) {
  auto find = [&](const std::string& piece) {
    auto found = file.vocabulary.find(piece);
    return found == file.vocabulary.end() ? kNoId : found->second;
  };
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = find(byte_level_ ? byte_alphabet()[byte] : fmt::format("<0x{:02X}>", byte));
  }
  ascii_ids_.fill(kNoId);
  for (const auto& [piece, id] : file.vocabulary) {
    if (piece.empty() || utf8_length_bytes(piece[0]) != piece.size()) {
      continue;
    }
    uint32_t codepoint = character_at(piece, 0).codepoint;
    if (codepoint < ascii_ids_.size()) {
      ascii_ids_[codepoint] = id;
    } else {
      character_ids_.emplace(codepoint, id);
    }
  }
}

void BpeModel::decide_cuts(const TokenizerFile& file) {
  cut_at_spaces_ = file.vocabulary.contains(std::string(kSpaceSign));
  for (const auto& [left, right] : file.merges) {
    if (has_space_inside(left + right)) {
      cut_at_spaces_ = false;
      return;
    }
  }
}

void BpeModel::encode_word(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const {
  if (!cut_at_spaces_) {
    encode_uncut(word, scratch, ids);
    return;
  }
  size_t begin = 0;
  size_t search = 0;
  while (begin < word.size()) {
    size_t sign = word.find(kSpaceSign, search);
    if (sign == std::string_view::npos) {
      sign = word.size();
    } else if (sign == search) {
      search = sign + kSpaceSign.size();  // the word's own sign; a run of them stays together
      continue;
    }
    encode_uncut(word.substr(begin, sign - begin), scratch, ids);
    begin = sign;
    search = sign;
  }
}

void BpeModel::encode_uncut(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const {
  if (word.size() > WordCache::kMaxWordBytes) {
    merge_word(word, scratch);
    ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
    return;
  }
  WordCache::Entry& entry = scratch.cache.find(word);
  if (entry.count < 0) {
    merge_word(word, scratch);
    if (scratch.symbols.size() > WordCache::kMaxIds) {
      ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
      return;
    }
    std::copy(scratch.symbols.begin(), scratch.symbols.end(), entry.ids.begin());
    entry.count = static_cast<int32_t>(scratch.symbols.size());
  }
  ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
}

void BpeModel::merge_word(std::string_view word, EncodeScratch& scratch) const {
  scratch.symbols.clear();
  if (!whole_words_.empty()) {
    if (auto whole = whole_words_.find(std::string(word)); whole != whole_words_.end()) {
      scratch.symbols.push_back(whole->second);
      return;
    }
  }
  if (byte_level_) {
    append_bytes(word, scratch.symbols);
  } else {
    append_characters(word, scratch.symbols);
  }
  merges_.apply(scratch);
}

void BpeModel::append_bytes(std::string_view word, std::vector<int32_t>& symbols) const {
  bool after_unknown = false;
  for (char c : word) {
    int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    // A vocabulary may lack bytes. They become its unknown token; without one the reference implementation
    // leaves them out, and ids must be the ones the model was trained with.
    bool unknown = id == kNoId;
    if (unknown && !(fuse_unknown_ && after_unknown)) {
      id = unknown_id_;
    }
    if (id != kNoId) {
      symbols.push_back(id);
    }
    after_unknown = unknown;
  }
}

int32_t BpeModel::character_id(uint32_t codepoint) const {
  if (codepoint < ascii_ids_.size()) {
    return ascii_ids_[codepoint];
  }
  auto found = character_ids_.find(codepoint);
  return found == character_ids_.end() ? kNoId : found->second;
}

// The bytes of a character, if the vocabulary has every one of them.
bool BpeModel::append_fallback(std::string_view character, std::vector<int32_t>& symbols) const {
  if (!byte_fallback_) {
    return false;
  }
  for (char byte : character) {
    if (byte_ids_[static_cast<uint8_t>(byte)] == kNoId) {
      return false;
    }
  }
  for (char byte : character) {
    symbols.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  }
  return true;
}

void BpeModel::append_characters(std::string_view word, std::vector<int32_t>& symbols) const {
  // An unknown token waits for the next known character, past bytes, as in the reference implementation.
  bool unknown_waits = false;
  for (size_t position = 0; position < word.size();) {
    Character character = character_at(word, position);
    int32_t id = character_id(character.codepoint);
    if (id != kNoId) {
      if (unknown_waits) {
        symbols.push_back(unknown_id_);
        unknown_waits = false;
      }
      symbols.push_back(id);
    } else if (!append_fallback(word.substr(position, character.length_bytes), symbols) &&
               unknown_id_ != kNoId) {
      if (unknown_waits && !fuse_unknown_) {
        symbols.push_back(unknown_id_);
      }
      unknown_waits = true;
    }
    position += character.length_bytes;
  }
  if (unknown_waits) {
    symbols.push_back(unknown_id_);
  }
}

}  // namespace snug
