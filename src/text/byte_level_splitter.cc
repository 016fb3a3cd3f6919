// Cutting text into the words that byte-level BPE merges within: tokenizer.json's "pre_tokenizer" where it is
// ByteLevel, alone or after Split and Digits steps.
#include "text/byte_level_splitter.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/error.h"

namespace snug {

namespace {

// What ByteLevel splits by when a file does not bring its own pattern: GPT-2's rule. English contractions;
// then letters, digits or other signs, each with one space before; then runs of white space, leaving the
// last one to the word that follows.
constexpr const char* kDefaultPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string type_of(const Json& description, const std::string& path) {
  return description.is_null() ? "null" : json_string(description, "type", "", path);
}

}  // namespace

ByteLevelSplitter::Step ByteLevelSplitter::split_step(const Json& description, const std::string& path) {
  auto pattern = description.find("pattern");
  std::string where = path + ": pre_tokenizer Split";
  Step step;
  if (pattern != description.end() && pattern->is_object() && pattern->contains("Regex")) {
    step.pattern.emplace(json_string(*pattern, "Regex", "", path), where);
  } else if (pattern != description.end() && pattern->is_object() && pattern->contains("String")) {
    step.pattern.emplace(Regex::literal(json_string(*pattern, "String", "", path), where));
  } else {
    throw bad_input(
        fmt::format("{}: the pre_tokenizer Split has no \"pattern\" with \"Regex\" or \"String\".", path));
  }
  std::string behavior = json_string(description, "behavior", "", path);
  bool invert = json_bool(description, "invert", false, path);
  if (behavior == "Removed") {
    step.keep_matches = invert;
    step.keep_between = !invert;
  } else if (behavior != "Isolated") {
    throw bad_input(
        fmt::format("{}: the pre_tokenizer Split has the behavior '{}'; snug knows Isolated and Removed.",
                    path, behavior));
  }
  return step;
}

std::vector<ByteLevelSplitter::Step> ByteLevelSplitter::steps_from_json(const Json& description,
                                                                        const std::string& path) {
  std::string type = type_of(description, path);
  std::vector<Step> steps;
  if (type == "Sequence") {
    auto parts = description.find("pretokenizers");
    if (parts == description.end() || !parts->is_array()) {
      throw bad_input(
          fmt::format("{}: the pre_tokenizer of type Sequence has no list \"pretokenizers\".", path));
    }
    for (const Json& part : *parts) {
      std::vector<Step> more = steps_from_json(part, path);
      steps.insert(steps.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    }
  } else if (type == "Split") {
    steps.push_back(split_step(description, path));
  } else if (type == "Digits") {
    bool individual = json_bool(description, "individual_digits", false, path);
    steps.emplace_back().pattern.emplace(individual ? R"(\p{N})" : R"(\p{N}+)", path);
  } else if (type == "ByteLevel") {
    Step& step = steps.emplace_back();
    step.add_prefix_space = json_bool(description, "add_prefix_space", true, path);
    if (json_bool(description, "use_regex", true, path)) {
      step.pattern.emplace(kDefaultPattern, path);
    }
  } else {
    throw bad_input(fmt::format(
        "{}: the pre_tokenizer '{}' is not supported for byte-level BPE; snug knows ByteLevel, Split, "
        "Digits and sequences of these.",
        path, type));
  }
  return steps;
}

ByteLevelSplitter ByteLevelSplitter::from_json(const Json& description, const std::string& path) {
  const Json* last = &description;
  if (type_of(description, path) == "Sequence" && description.contains("pretokenizers") &&
      !description["pretokenizers"].empty()) {
    last = &description["pretokenizers"].back();
  }
  if (type_of(*last, path) != "ByteLevel") {
    throw bad_input(
        fmt::format("{}: the pre_tokenizer is or ends with '{}'; snug needs ByteLevel there. Use a model "
                    "whose tokenizer is "
                    "byte-level BPE (Llama 3, Qwen2, GPT-2 and the like).",
                    path, type_of(*last, path)));
  }
  ByteLevelSplitter splitter;
  splitter.steps_ = steps_from_json(description, path);
  return splitter;
}

void ByteLevelSplitter::split(std::string_view text, bool at_start, const Visitor& visit) const {
  run_step(0, text, at_start, visit);
}

void ByteLevelSplitter::run_step(size_t index, std::string_view text, bool at_start,
                                 const Visitor& visit) const {
  if (index == steps_.size()) {
    visit(text);
    return;
  }
  const Step& step = steps_[index];
  std::string prefixed;
  if (step.add_prefix_space && at_start && !text.starts_with(' ')) {
    prefixed = " " + std::string(text);
    text = prefixed;
  }
  if (!step.pattern) {
    run_step(index + 1, text, at_start, visit);
    return;
  }
  step.pattern->split(text, [&](std::string_view piece, bool is_match) {
    if (is_match ? step.keep_matches : step.keep_between) {
      run_step(index + 1, piece, at_start, visit);
    }
  });
}

}  // namespace snug
