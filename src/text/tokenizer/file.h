// tokenizer.json as read from disk: the vocabulary and merges apart, because they are large, and the rest as
// a small document. The file is untrusted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/json.h"

namespace snug {

// Above every vocabulary in use; keeps a damaged id from asking for gigabytes of table.
inline constexpr int64_t kMaxTokenId = int64_t{1} << 24;

struct TokenizerFile {
  std::string path;
  Json document;           // without model.vocab and model.merges
  std::string model_type;  // "BPE", "Unigram", ...
  std::unordered_map<std::string, int32_t> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;    // best first
  std::vector<std::pair<std::string, double>> scored_pieces;  // of a Unigram model, by id
  std::optional<int32_t> bos_id;  // where the file itself says it, as SentencePiece models do
  std::optional<int32_t> eos_id;

  // A part of the document, null where it is absent.
  const Json& part(const std::string& key) const;
  const Json& model() const { return part("model"); }
};

// A Unigram score as the reference implementation reads it from JSON: all digits as a whole number, then one
// division by a power of ten. That can miss the nearest double by a bit, and of two ways to cut a word with
// equal scores the last bit decides.
double score_as_in_reference(double exact);

// Reads tokenizer.json, plain or compressed with gzip.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);
// The same from its text; `path` names it in errors.
TokenizerFile parse_tokenizer_file(const std::string& text, const std::string& path);

}  // namespace snug
