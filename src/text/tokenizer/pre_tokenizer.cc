// Cutting normalized text into the words that a model encodes one by one: tokenizer.json's "pre_tokenizer".
#include "text/tokenizer/pre_tokenizer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "io/printable.h"
#include "text/tokenizer/known_patterns.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/split_behavior.h"
#include "text/unicode/character_class.h"
#include "text/unicode/valid_utf8.h"

namespace snug {

namespace {

using Steps = std::vector<std::unique_ptr<SplitStep>>;

// Splits where an expression matches.
class RegexStep : public SplitStep {
 public:
  RegexStep(Regex regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}
  void run(std::string_view text, const PieceContext& context, const Visitor& visit) const override {
    SplitJoiner joiner(text, behavior_, context, visit);
    regex_.split(text,
                 [&](std::string_view piece, bool is_match) { joiner.add(piece, is_match != invert_); });
    joiner.finish();
  }

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

// The same for the expressions written out by hand, each match a piece.
class KnownPatternStep : public SplitStep {
 public:
  explicit KnownPatternStep(const KnownPattern& pattern) : pattern_(pattern) {}
  void run(std::string_view text, const PieceContext& context, const Visitor& visit) const override {
    PieceContext here = context;
    for (size_t begin = 0; begin < text.size();) {
      size_t end = pattern_.match_end(text, begin);
      visit(text.substr(begin, end - begin), here);
      here = {.at_text_start = false, .continues = false};
      begin = end;
    }
  }

 private:
  KnownPattern pattern_;
};

// Splits at characters of a class.
class ClassStep : public SplitStep {
 public:
  ClassStep(uint8_t wanted, SplitBehavior behavior) : wanted_(wanted), behavior_(behavior) {}
  void run(std::string_view text, const PieceContext& context, const Visitor& visit) const override {
    const CharacterClasses& classes = CharacterClasses::instance();
    SplitJoiner joiner(text, behavior_, context, visit);
    size_t done = 0;
    for (size_t position = 0; position < text.size();) {
      Character character = character_at(text, position);
      size_t next = position + character.length_bytes;
      if ((classes[character.codepoint] & wanted_) != 0) {
        if (position > done) {
          joiner.add(text.substr(done, position - done), false);
        }
        joiner.add(text.substr(position, character.length_bytes), true);
        done = next;
      }
      position = next;
    }
    if (done < text.size()) {
      joiner.add(text.substr(done), false);
    }
    joiner.finish();
  }

 private:
  uint8_t wanted_;
  SplitBehavior behavior_;
};

// Words and runs of signs; white space goes.
class WhitespaceStep : public SplitStep {
 public:
  void run(std::string_view text, const PieceContext& context, const Visitor& visit) const override {
    size_t begin = 0;
    std::optional<bool> in_word;
    auto end_at = [&](size_t end) {
      if (in_word) {
        bool first = begin == 0;
        visit(text.substr(begin, end - begin),
              {.at_text_start = context.at_text_start && first, .continues = context.continues && first});
      }
    };
    for (size_t position = 0; position < text.size();) {
      Character character = character_at(text, position);
      std::optional<bool> word;
      if (!is_white_space(character.codepoint)) {
        word = is_word_character(character.codepoint);
      }
      if (word != in_word) {
        end_at(position);
        begin = position;
        in_word = word;
      }
      position += character.length_bytes;
    }
    end_at(text.size());
  }
};

// Puts one space before a text that has none.
class PrefixSpaceStep : public SplitStep {
 public:
  void run(std::string_view text, const PieceContext& context, const Visitor& visit) const override {
    if (context.continues || text.starts_with(' ')) {
      visit(text, context);
    } else {
      visit(" " + std::string(text), context);
    }
  }
};

// Spaces become the visible sign of SentencePiece; words begin with it.
class MetaspaceStep : public SplitStep {
 public:
  enum class Prepend : uint8_t { first, always, never };
  MetaspaceStep(std::string sign, Prepend prepend, bool split)
      : sign_(std::move(sign)), prepend_(prepend), split_(split) {}

  void run(std::string_view text, const PieceContext& context, const Visitor& visit) const override {
    bool wants = prepend_ == Prepend::always || (prepend_ == Prepend::first && context.at_text_start);
    bool prefix = wants && !context.continues && !text.starts_with(' ') && !text.starts_with(sign_);
    std::string replaced;
    replaced.reserve(text.size() + text.size() / 2 + sign_.size());
    if (prefix) {
      replaced += sign_;
    }
    size_t done = 0;
    for (size_t space = text.find(' '); space != std::string_view::npos; space = text.find(' ', done)) {
      replaced.append(text.substr(done, space - done)).append(sign_);
      done = space + 1;
    }
    replaced.append(text.substr(done));
    if (split_) {
      visit_words(replaced, context, visit);
    } else {
      visit(replaced, context);
    }
  }

 private:
  // Each sign goes with what follows it; of several, all but the last stand alone.
  void visit_words(std::string_view text, const PieceContext& context, const Visitor& visit) const {
    PieceContext here = context;
    size_t begin = 0;
    while (begin < text.size()) {
      size_t end = std::min(
          text.find(sign_, begin == 0 && !text.starts_with(sign_) ? 0 : begin + sign_.size()), text.size());
      visit(text.substr(begin, end - begin), here);
      here = {.at_text_start = false, .continues = false};
      begin = end;
    }
  }

  std::string sign_;
  Prepend prepend_;
  bool split_;
};

std::unique_ptr<SplitStep> metaspace_step(const Json& description, const std::string& where) {
  std::string sign = json_string(description, "replacement", "▁", where);
  std::string scheme = json_string(description, "prepend_scheme", "always", where);
  using Prepend = MetaspaceStep::Prepend;
  Prepend prepend = Prepend::always;
  if (!json_bool(description, "add_prefix_space", true, where) || scheme == "never") {
    prepend = Prepend::never;
  } else if (scheme == "first") {
    prepend = Prepend::first;
  } else if (scheme != "always") {
    throw bad_input(
        fmt::format("{}: Metaspace has the prepend_scheme '{}'; allowed are first, always and never.", where,
                    printable(scheme)));
  }
  if (sign.empty()) {
    throw bad_input(fmt::format("{}: Metaspace has an empty \"replacement\".", where));
  }
  return std::make_unique<MetaspaceStep>(sign, prepend, json_bool(description, "split", true, where));
}

std::unique_ptr<SplitStep> split_step(const Json& description, const std::string& where) {
  auto pattern = description.find("pattern");
  SplitBehavior behavior = split_behavior_from_text(json_string(description, "behavior", "", where), where);
  bool invert = json_bool(description, "invert", false, where);
  if (pattern != description.end() && pattern->is_object() && pattern->contains("Regex")) {
    std::string expression = json_string(*pattern, "Regex", "", where);
    std::optional<KnownPattern> known = KnownPattern::find(expression);
    if (known && (behavior == SplitBehavior::isolated || (behavior == SplitBehavior::removed && invert))) {
      return std::make_unique<KnownPatternStep>(*known);
    }
    return std::make_unique<RegexStep>(Regex(expression, where), behavior, invert);
  }
  if (pattern != description.end() && pattern->is_object() && pattern->contains("String")) {
    return std::make_unique<RegexStep>(Regex::literal(json_string(*pattern, "String", "", where), where),
                                       behavior, invert);
  }
  throw bad_input(fmt::format("{}: Split has no \"pattern\" with \"Regex\" or \"String\".", where));
}

std::unique_ptr<SplitStep> make_step(const std::string& type, const Json& description,
                                     const std::string& where) {
  if (type == "Split") {
    return split_step(description, where);
  }
  if (type == "Metaspace") {
    return metaspace_step(description, where);
  }
  if (type == "Digits") {
    bool individual = json_bool(description, "individual_digits", false, where);
    return std::make_unique<ClassStep>(kNumber,
                                       individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
  }
  if (type == "WhitespaceSplit") {
    return std::make_unique<ClassStep>(kWhiteSpace, SplitBehavior::removed);
  }
  if (type == "Whitespace") {
    return std::make_unique<WhitespaceStep>();
  }
  if (type == "Punctuation") {
    return std::make_unique<ClassStep>(
        kPunctuation,
        split_behavior_from_text(json_string(description, "behavior", "Isolated", where), where));
  }
  if (type == "CharDelimiterSplit") {
    std::string delimiter = json_string(description, "delimiter", "", where);
    if (delimiter.empty() || utf8_length_bytes(delimiter[0]) != delimiter.size()) {
      throw bad_input(fmt::format("{}: CharDelimiterSplit has the delimiter '{}'; it must be one character.",
                                  where, printable(delimiter)));
    }
    return std::make_unique<RegexStep>(Regex::literal(delimiter, where), SplitBehavior::removed, false);
  }
  throw bad_input(
      fmt::format("{}: the pre_tokenizer '{}' is not supported; snug knows ByteLevel, Metaspace, Split, "
                  "Digits, Punctuation, "
                  "Whitespace, WhitespaceSplit, CharDelimiterSplit and sequences of these.",
                  where, printable(type)));
}

// Appends the steps of one description; true if it is or ends with ByteLevel.
bool append_steps(const Json& description, const std::string& where, Steps& steps) {
  std::string type = json_string(description, "type", "", where);
  if (type == "ByteLevel") {
    if (json_bool(description, "add_prefix_space", true, where)) {
      steps.push_back(std::make_unique<PrefixSpaceStep>());
    }
    if (json_bool(description, "use_regex", true, where)) {
      steps.push_back(std::make_unique<KnownPatternStep>(*KnownPattern::find(KnownPattern::gpt2_text())));
    }
    return true;
  }
  if (type != "Sequence") {
    steps.push_back(make_step(type, description, where));
    return false;
  }
  auto parts = description.find("pretokenizers");
  if (parts == description.end() || !parts->is_array()) {
    throw bad_input(fmt::format("{}: a Sequence has no list \"pretokenizers\".", where));
  }
  bool byte_level = false;
  for (size_t i = 0; i < parts->size(); ++i) {
    std::string place = fmt::format("{}.pretokenizers[{}]", where, i);
    if (byte_level) {
      throw bad_input(
          fmt::format("{}: nothing may follow ByteLevel here; snug knows it as the last one only.", place));
    }
    byte_level = append_steps((*parts)[i], place, steps);
  }
  return byte_level;
}

}  // namespace

PreTokenizer PreTokenizer::from_json(const Json& description, const std::string& path) {
  PreTokenizer result;
  if (!description.is_null()) {
    result.byte_level_ = append_steps(description, path + ": pre_tokenizer", result.steps_);
  }
  return result;
}

void PreTokenizer::split(std::string_view text, const PieceContext& context, const WordVisitor& visit) const {
  if (!text.empty()) {
    run_step(0, text, context, visit);
  }
}

void PreTokenizer::run_step(size_t index, std::string_view text, const PieceContext& context,
                            const WordVisitor& visit) const {
  if (index == steps_.size()) {
    visit(text);
    return;
  }
  steps_[index]->run(text, context, [&](std::string_view piece, const PieceContext& here) {
    run_step(index + 1, piece, here, visit);
  });
}

}  // namespace snug
