// tokenizer.json as read from disk: the vocabulary and merges apart, because they are large, and the rest as
// a small document. The file is untrusted.
#include "text/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/printable.h"

namespace snug {

namespace {

// Json keeps keys in order and finds them by walking: quadratic on a vocabulary. This one sorts them.
using LargeJson = nlohmann::json;

LargeJson parse_large(const std::string& text, const std::string& path) {
  try {
    return LargeJson::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    size_t offset = std::min(error.byte, text.size());
    auto begin = text.begin();
    auto end = text.begin() + static_cast<std::ptrdiff_t>(offset);
    auto line = 1 + std::count(begin, end, '\n');
    size_t newline = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
    size_t column = newline == std::string::npos ? offset : offset - newline;
    throw bad_input(fmt::format(
        "{}:{}:{}: not valid JSON. The file may be cut short or a Git LFS pointer: download it again.", path,
        line, column));
  }
}

std::unordered_map<std::string, int32_t> read_vocabulary(const LargeJson& entries, const std::string& path) {
  std::unordered_map<std::string, int32_t> vocabulary;
  vocabulary.reserve(entries.size());
  for (const auto& [piece, id] : entries.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMaxTokenId) {
      throw bad_input(fmt::format("{}: the vocabulary gives '{}' the id {}; ids are whole numbers, 0 to {}.",
                                  path, printable(piece), printable(id.dump()), kMaxTokenId - 1));
    }
    vocabulary.emplace(piece, id.get<int32_t>());
  }
  return vocabulary;
}

// A merge is written "a b" in older files and ["a", "b"] in newer ones.
std::pair<std::string, std::string> read_merge(const LargeJson& entry, size_t index,
                                               const std::string& path) {
  if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
    return {entry[0].get<std::string>(), entry[1].get<std::string>()};
  }
  if (entry.is_string()) {
    const auto& text = entry.get_ref<const std::string&>();
    size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  throw bad_input(fmt::format("{}: merge {} is {}; a merge is \"left right\" or [\"left\", \"right\"].", path,
                              index, printable(entry.dump())));
}

// Old files leave the type out; what else they hold tells it.
std::string model_type_of(const LargeJson& model) {
  auto type = model.find("type");
  if (type != model.end() && type->is_string()) {
    return type->get<std::string>();
  }
  if (model.contains("merges")) {
    return "BPE";
  }
  return model.contains("unk_id") ? "Unigram" : "";
}

}  // namespace

const Json& TokenizerFile::part(const std::string& key) const {
  static const Json kNothing;
  auto found = document.find(key);
  return found == document.end() ? kNothing : *found;
}

TokenizerFile read_tokenizer_file(const std::filesystem::path& path) {
  TokenizerFile file;
  file.path = path.string();
  LargeJson large = parse_large(read_text_file(path), file.path);
  if (!large.is_object() || !large.contains("model") || !large["model"].is_object()) {
    throw bad_input(
        fmt::format("{}: no object \"model\"; this is not a Hugging Face tokenizer.json.", file.path));
  }
  LargeJson& model = large["model"];
  file.model_type = model_type_of(model);
  if (model.contains("vocab") && model["vocab"].is_object()) {
    file.vocabulary = read_vocabulary(model["vocab"], file.path);
  }
  if (model.contains("merges") && model["merges"].is_array()) {
    const LargeJson& merges = model["merges"];
    file.merges.reserve(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      file.merges.push_back(read_merge(merges[i], i, file.path));
    }
  }
  model.erase("vocab");
  model.erase("merges");
  file.document = Json(large);
  return file;
}

}  // namespace snug
