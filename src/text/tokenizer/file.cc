// tokenizer.json as read from disk: the vocabulary and merges apart, because they are large, and the rest as
// a small document. The file is untrusted.
#include "text/tokenizer/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/printable.h"
#include "text/packed_file.h"

namespace snug {

namespace {

// Json keeps keys in order and finds them by walking: quadratic on a vocabulary. This one sorts them.
using LargeJson = nlohmann::json;

constexpr int kMaxNesting = 100;  // real files have 6; a deeper one would use up the stack

std::string place_of(const std::string& text, size_t offset) {
  auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  size_t newline = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  return fmt::format("{}:{}", line, newline == std::string::npos ? offset : offset - newline);
}

void check_nesting(const std::string& text, const std::string& path) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxNesting) {
        throw bad_input(fmt::format("{}:{}: nested deeper than {}; this is not a tokenizer.json.", path,
                                    place_of(text, i), kMaxNesting));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

LargeJson parse_large(const std::string& text, const std::string& path) {
  check_nesting(text, path);
  try {
    return LargeJson::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw bad_input(fmt::format(
        "{}:{}: not valid JSON. The file may be cut short or a Git LFS pointer: download it again.", path,
        place_of(text, std::min(error.byte, text.size()))));
  } catch (const nlohmann::json::out_of_range&) {
    throw bad_input(fmt::format("{}: holds a number too large for any use. Download it again.", path));
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

// A Unigram vocabulary is a list of ["piece", score], by id.
void read_scored_pieces(const LargeJson& entries, TokenizerFile& file) {
  if (static_cast<int64_t>(entries.size()) > kMaxTokenId) {
    throw bad_input(fmt::format("{}: the vocabulary has {} entries; at most {} are read.", file.path,
                                entries.size(), kMaxTokenId));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const LargeJson& entry = entries[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      throw bad_input(fmt::format("{}: vocabulary entry {} is {}; it must be [\"piece\", score].", file.path,
                                  i, printable(entry.dump())));
    }
    file.scored_pieces.emplace_back(entry[0].get<std::string>(),
                                    score_as_in_reference(entry[1].get<double>()));
    file.vocabulary[file.scored_pieces.back().first] = static_cast<int32_t>(i);
  }
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
  return model.contains("vocab") && model["vocab"].is_array() ? "Unigram" : "";
}

}  // namespace

double score_as_in_reference(double exact) {
  std::string text = fmt::format("{}", std::abs(exact));  // the shortest digits, which is what files hold
  size_t exponent_mark = text.find('e');
  int exponent = exponent_mark == std::string::npos ? 0 : std::stoi(text.substr(exponent_mark + 1));
  uint64_t digits = 0;
  bool in_fraction = false;
  for (char c : std::string_view(text).substr(0, exponent_mark)) {
    if (c == '.') {
      in_fraction = true;
    } else {
      digits = digits * 10 + static_cast<uint64_t>(c - '0');
      exponent -= in_fraction ? 1 : 0;
    }
  }
  if (text.size() > 19 || std::abs(exponent) > 22) {
    return exact;
  }
  double power = std::pow(10.0, std::abs(exponent));
  double value = exponent < 0 ? static_cast<double>(digits) / power : static_cast<double>(digits) * power;
  return std::signbit(exact) ? -value : value;
}

const Json& TokenizerFile::part(const std::string& key) const {
  static const Json kNothing;
  auto found = document.find(key);
  return found == document.end() ? kNothing : *found;
}

TokenizerFile parse_tokenizer_file(const std::string& text, const std::string& path) {
  TokenizerFile file;
  file.path = path;
  LargeJson large = parse_large(text, file.path);
  if (!large.is_object() || !large.contains("model") || !large["model"].is_object()) {
    throw bad_input(
        fmt::format("{}: no object \"model\"; this is not a Hugging Face tokenizer.json.", file.path));
  }
  LargeJson& model = large["model"];
  file.model_type = model_type_of(model);
  if (model.contains("vocab") && model["vocab"].is_object()) {
    file.vocabulary = read_vocabulary(model["vocab"], file.path);
  } else if (model.contains("vocab") && model["vocab"].is_array()) {
    read_scored_pieces(model["vocab"], file);
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

TokenizerFile read_tokenizer_file(const std::filesystem::path& path) {
  return parse_tokenizer_file(read_packed_file(path), path.string());
}

}  // namespace snug
