// What a tokenizer does to text before it looks at it: tokenizer.json's "normalizer".
#include "text/tokenizer/normalizer.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "io/printable.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/regex.h"
#include "text/unicode/character_class.h"
#include "text/unicode/forms.h"
#include "text/unicode/valid_utf8.h"

namespace snug {

namespace {

using Steps = std::vector<std::unique_ptr<NormalizerStep>>;

class FormStep : public NormalizerStep {
 public:
  explicit FormStep(UnicodeForm form) : form_(form) {}
  bool apply(std::string_view text, bool /*continues*/, std::string& result) const override {
    return normalize_unicode(text, form_, result);
  }

 private:
  UnicodeForm form_;
};

class LowercaseStep : public NormalizerStep {
  bool apply(std::string_view text, bool /*continues*/, std::string& result) const override {
    lowercase(text, result);
    return true;
  }
};

class StripAccentsStep : public NormalizerStep {
  bool apply(std::string_view text, bool /*continues*/, std::string& result) const override {
    strip_accents(text, result);
    return true;
  }
};

class PrependStep : public NormalizerStep {
 public:
  explicit PrependStep(std::string prefix) : prefix_(std::move(prefix)) {}
  bool apply(std::string_view text, bool continues, std::string& result) const override {
    if (text.empty() || continues) {
      return false;
    }
    result.assign(prefix_).append(text);
    return true;
  }

 private:
  std::string prefix_;
};

class ReplaceTextStep : public NormalizerStep {
 public:
  ReplaceTextStep(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  bool apply(std::string_view text, bool /*continues*/, std::string& result) const override {
    size_t found = text.find(pattern_);
    if (found == std::string_view::npos) {
      return false;
    }
    result.clear();
    result.reserve(text.size() + text.size() / 2);
    size_t done = 0;
    for (; found != std::string_view::npos; found = text.find(pattern_, done)) {
      result.append(text.substr(done, found - done)).append(content_);
      done = found + pattern_.size();
    }
    result.append(text.substr(done));
    return true;
  }

 private:
  std::string pattern_;
  std::string content_;
};

class ReplaceRegexStep : public NormalizerStep {
 public:
  ReplaceRegexStep(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  bool apply(std::string_view text, bool /*continues*/, std::string& result) const override {
    result.clear();
    pattern_.split(text,
                   [&](std::string_view piece, bool is_match) { result += is_match ? content_ : piece; });
    return true;
  }

 private:
  Regex pattern_;
  std::string content_;
};

class StripStep : public NormalizerStep {
 public:
  StripStep(bool left, bool right) : left_(left), right_(right) {}
  bool apply(std::string_view text, bool /*continues*/, std::string& result) const override {
    size_t begin = 0;
    size_t end = text.size();
    while (left_ && begin < end && is_white_space(character_at(text, begin).codepoint)) {
      begin += utf8_length_bytes(text[begin]);
    }
    while (right_ && end > begin && is_white_space(character_before(text, end).codepoint)) {
      end -= character_before(text, end).length_bytes;
    }
    result.assign(text.substr(begin, end - begin));
    return result.size() != text.size();
  }

 private:
  bool left_;
  bool right_;
};

// Control characters go, and what some scripts and editors use as a space becomes one.
class NmtStep : public NormalizerStep {
  bool apply(std::string_view text, bool /*continues*/, std::string& result) const override {
    result.clear();
    for (size_t position = 0; position < text.size();) {
      Character character = character_at(text, position);
      uint32_t c = character.codepoint;
      bool removed = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
                     c == 0x8F || c == 0x9F;
      bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                   (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                   c == 0xFFFD;
      if (space) {
        result += ' ';
      } else if (!removed) {
        result.append(text.substr(position, character.length_bytes));
      }
      position += character.length_bytes;
    }
    return true;
  }
};

class CharsmapStep : public NormalizerStep {
 public:
  explicit CharsmapStep(Charsmap map) : map_(std::move(map)) {}
  bool apply(std::string_view text, bool /*continues*/, std::string& result) const override {
    return map_.apply(text, result);
  }

 private:
  Charsmap map_;
};

std::unique_ptr<NormalizerStep> replace_step(const Json& description, const std::string& where) {
  auto pattern = description.find("pattern");
  std::string content = json_string(description, "content", "", where);
  if (pattern != description.end() && pattern->is_object() && pattern->contains("String")) {
    std::string text = json_string(*pattern, "String", "", where);
    if (text.empty()) {  // it is found between all characters
      return std::make_unique<ReplaceRegexStep>(Regex::literal(text, where), content);
    }
    return std::make_unique<ReplaceTextStep>(text, content);
  }
  if (pattern != description.end() && pattern->is_object() && pattern->contains("Regex")) {
    return std::make_unique<ReplaceRegexStep>(Regex(json_string(*pattern, "Regex", "", where), where),
                                              content);
  }
  throw bad_input(fmt::format("{}: Replace has no \"pattern\" with \"String\" or \"Regex\".", where));
}

std::unique_ptr<NormalizerStep> make_step(const std::string& type, const Json& description,
                                          const std::string& where) {
  static const std::pair<const char*, UnicodeForm> kForms[] = {{"NFC", UnicodeForm::nfc},
                                                               {"NFD", UnicodeForm::nfd},
                                                               {"NFKC", UnicodeForm::nfkc},
                                                               {"NFKD", UnicodeForm::nfkd}};
  for (const auto& [name, form] : kForms) {
    if (type == name) {
      return std::make_unique<FormStep>(form);
    }
  }
  if (type == "Lowercase") {
    return std::make_unique<LowercaseStep>();
  }
  if (type == "StripAccents") {
    return std::make_unique<StripAccentsStep>();
  }
  if (type == "Prepend") {
    return std::make_unique<PrependStep>(json_string(description, "prepend", "", where));
  }
  if (type == "Replace") {
    return replace_step(description, where);
  }
  if (type == "Strip") {
    return std::make_unique<StripStep>(json_bool(description, "strip_left", true, where),
                                       json_bool(description, "strip_right", true, where));
  }
  if (type == "Nmt") {
    return std::make_unique<NmtStep>();
  }
  if (type == "Precompiled") {
    std::string map = where + ".precompiled_charsmap";
    return std::make_unique<CharsmapStep>(
        Charsmap(decode_base64(json_string(description, "precompiled_charsmap", "", where), map), map));
  }
  throw bad_input(fmt::format(
      "{}: the normalizer '{}' is not supported; snug knows NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, "
      "Strip, "
      "Prepend, Replace, Nmt, Precompiled and sequences of these. Use a model whose tokenizer has these.",
      where, printable(type)));
}

void append_steps(const Json& description, const std::string& where, Steps& steps) {
  if (description.is_null()) {
    return;
  }
  std::string type = json_string(description, "type", "", where);
  if (type != "Sequence") {
    // An empty table stands for no normalizer at all.
    bool empty_map =
        type == "Precompiled" && json_string(description, "precompiled_charsmap", "", where).empty();
    if (!empty_map) {
      steps.push_back(make_step(type, description, where));
    }
    return;
  }
  auto parts = description.find("normalizers");
  if (parts == description.end() || !parts->is_array()) {
    throw bad_input(fmt::format("{}: a Sequence has no list \"normalizers\".", where));
  }
  for (size_t i = 0; i < parts->size(); ++i) {
    append_steps((*parts)[i], fmt::format("{}.normalizers[{}]", where, i), steps);
  }
}

}  // namespace

Normalizer Normalizer::from_json(const Json& description, const std::string& path) {
  Normalizer result;
  append_steps(description, path + ": normalizer", result.steps_);
  return result;
}

std::string_view Normalizer::apply(std::string_view text, bool continues, Buffers& buffers) const {
  size_t target = 0;
  for (const std::unique_ptr<NormalizerStep>& step : steps_) {
    if (step->apply(text, continues, buffers[target])) {
      text = buffers[target];
      target = 1 - target;
    }
  }
  return text;
}

std::string Normalizer::apply(std::string_view text) const {
  Buffers buffers;
  return std::string(apply(text, false, buffers));
}

}  // namespace snug
