// tokenizer.json as read from disk: the vocabulary and merges apart, because they are large, and the rest as
// a small document. The file is untrusted.
#pragma once

#include <cstdint>
#include <filesystem>
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
  std::vector<std::pair<std::string, std::string>> merges;  // best first

  // A part of the document, null where it is absent.
  const Json& part(const std::string& key) const;
  const Json& model() const { return part("model"); }
};

TokenizerFile read_tokenizer_file(const std::filesystem::path& path);

}  // namespace snug
