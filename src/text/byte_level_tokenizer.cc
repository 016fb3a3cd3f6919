// Byte-level BPE: words are sequences of bytes.
#include "text/byte_level_tokenizer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace snug {

namespace {

constexpr size_t kCacheWords = size_t{1} << 16;
constexpr size_t kCacheWordBytes = 64;  // longer words hardly ever come twice

void refuse_unknown_parts(const TokenizerFile& file) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string value = json_string(file.model(), key, "", file.path);
    if (!value.empty()) {
      throw bad_input(fmt::format("{}: model.{} is '{}'; snug supports byte-level BPE without it.", file.path,
                                  key, value));
    }
  }
  if (double dropout = json_number(file.model(), "dropout", 0, file.path); dropout != 0) {
    throw bad_input(fmt::format("{}: model.dropout is {}; snug encodes without dropout. Set it to null.",
                                file.path, dropout));
  }
  const Json& decoder = file.part("decoder");
  std::string type = decoder.is_null() ? "null" : json_string(decoder, "type", "", file.path);
  if (type != "ByteLevel") {
    throw bad_input(fmt::format(
        "{}: the decoder '{}' is not supported with byte-level BPE; it must be ByteLevel.", file.path, type));
  }
}

}  // namespace

ByteLevelTokenizer::ByteLevelTokenizer(const TokenizerFile& file, const std::filesystem::path& model_folder)
    : Tokenizer(file, model_folder),
      splitter_(ByteLevelSplitter::from_json(file.part("pre_tokenizer"), file.path)),
      merges_(file.merges, file.vocabulary, file.path) {
  refuse_unknown_parts(file);
  auto find = [&](const std::string& piece) {
    auto found = file.vocabulary.find(piece);
    return found == file.vocabulary.end() ? std::nullopt : std::optional<int32_t>(found->second);
  };
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = find(byte_alphabet()[byte]);
  }
  unknown_id_ = find(json_string(file.model(), "unk_token", "", file.path));
  fuse_unknown_ = json_bool(file.model(), "fuse_unk", false, file.path);
  token_bytes_.reserve(pieces().size());
  for (size_t id = 0; id < pieces().size(); ++id) {
    // Added tokens are written as they are, not in the byte alphabet.
    const std::string& piece = pieces()[id];
    token_bytes_.push_back(is_added(static_cast<int32_t>(id)) ? piece
                                                              : bytes_of_piece(piece).value_or(piece));
  }
  if (json_bool(file.model(), "ignore_merges", false, file.path)) {
    for (const auto& [piece, id] : file.vocabulary) {
      if (std::optional<std::string> word = bytes_of_piece(piece); word) {
        whole_words_.emplace(*word, id);
      }
    }
  }
}

std::string ByteLevelTokenizer::bytes(int32_t id) const {
  return id >= 0 && id < vocabulary_size() ? token_bytes_[static_cast<size_t>(id)] : "";
}

void ByteLevelTokenizer::encode_plain(std::string_view text, bool at_start, std::vector<int32_t>& ids) const {
  splitter_.split(text, at_start, [&](std::string_view word) { encode_word(word, ids); });
}

void ByteLevelTokenizer::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (auto whole = whole_words_.find(word); whole != whole_words_.end()) {
    ids.push_back(whole->second);
    return;
  }
  // A thread that finds the cache in use works without it rather than wait.
  std::unique_lock<std::mutex> lock(cache_mutex_, std::defer_lock);
  if (word.size() > kCacheWordBytes || !lock.try_lock()) {
    std::vector<int32_t> merged = merge_word(word);
    ids.insert(ids.end(), merged.begin(), merged.end());
    return;
  }
  auto found = cache_.find(word);
  if (found == cache_.end()) {
    if (cache_.size() >= kCacheWords) {
      cache_.clear();
    }
    found = cache_.emplace(std::string(word), merge_word(word)).first;
  }
  ids.insert(ids.end(), found->second.begin(), found->second.end());
}

std::vector<int32_t> ByteLevelTokenizer::merge_word(std::string_view word) const {
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  bool after_unknown = false;
  for (char c : word) {
    std::optional<int32_t> id = byte_ids_[static_cast<uint8_t>(c)];
    // A vocabulary may lack bytes. They become its unknown token; without one the reference implementation
    // leaves them out, and ids must be the ones the model was trained with.
    bool unknown = !id;
    if (unknown && unknown_id_ && !(fuse_unknown_ && after_unknown)) {
      id = unknown_id_;
    }
    if (id) {
      symbols.push_back(*id);
    }
    after_unknown = unknown;
  }
  merges_.apply(symbols);
  return symbols;
}

}  // namespace snug
