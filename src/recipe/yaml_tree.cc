// Builds the tree from yaml-cpp's events. Its own node tree is not used, because it forgets duplicate keys.
#include "recipe/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/utf8.h"
#include "io/printable.h"
#include "recipe/scalars.h"

namespace snug {
namespace {

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::deque<YamlValue>& values, const YamlSource& source) : values_(values), source_(source) {}

  const YamlNode& root() const { return root_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      throw bad_input(
          fmt::format("{}: a second YAML document begins here: expected one document, so remove "
                      "the line \"---\" or what follows it",
                      source_.at(mark.line + 1, mark.column + 1)));
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, anchor, YamlValue::Kind::null);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const YamlValue* target = anchor < anchors_.size() ? anchors_[anchor] : nullptr;
    if (target == nullptr || !target->complete) {
      throw bad_input(fmt::format("{}: this alias refers to something that contains it",
                                  source_.at(mark.line + 1, mark.column + 1)));
    }
    place({mark.line + 1, mark.column + 1, target});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    YamlValue& value = add(mark, anchor, YamlValue::Kind::scalar);
    value.text = text;
    value.plain = tag == "?";
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor, YamlValue::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor, YamlValue::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  YamlValue& add(const YAML::Mark& mark, YAML::anchor_t anchor, YamlValue::Kind kind) {
    YamlValue& value = values_.emplace_back();
    value.kind = kind;
    if (anchor != YAML::NullAnchor) {
      anchors_.resize(std::max(anchors_.size(), anchor + 1));
      anchors_[anchor] = &value;
    }
    place({mark.line + 1, mark.column + 1, &value});
    return value;
  }
  void place(const YamlNode& node) {
    if (open_.empty()) {
      root_ = node;
    } else {
      open_.back()->items.push_back(node);
    }
  }
  // yaml-cpp recurses once a level and reports each level before it descends, so this bounds its stack too.
  void open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlValue::Kind kind) {
    if (open_.size() >= kMaxYamlDepth) {
      throw bad_input(fmt::format("{}: lists and sections nested deeper than {} levels",
                                  source_.at(mark.line + 1, mark.column + 1), kMaxYamlDepth));
    }
    YamlValue& value = add(mark, anchor, kind);
    value.complete = false;
    open_.push_back(&value);
  }
  void close() {
    open_.back()->complete = true;
    open_.pop_back();
  }

  std::deque<YamlValue>& values_;
  const YamlSource& source_;
  YamlNode root_;
  std::vector<YamlValue*> open_;
  std::vector<const YamlValue*> anchors_;
  int documents_ = 0;
};

struct Position {
  int line = 1;
  int column = 1;
};

Position position_of(std::string_view text, size_t offset) {
  std::string_view before = text.substr(0, offset);
  size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(offset - line_start) + 1};
}

// What yaml-cpp would misread or read as another encoding: refused before it sees the text.
void check_characters(std::string_view text, const YamlSource& source) {
  size_t bad = valid_utf8_prefix_bytes(text);
  if (bad < text.size()) {
    Position position = position_of(text, bad);
    throw bad_input(fmt::format("{}: byte 0x{:02x} is not valid UTF-8: save the file as UTF-8",
                                source.at(position.line, position.column),
                                static_cast<unsigned char>(text[bad])));
  }
  bool in_indentation = true;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool is_control = static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
    if (is_control) {
      Position position = position_of(text, i);
      throw bad_input(fmt::format("{}: control character 0x{:02x}: a recipe is plain text",
                                  source.at(position.line, position.column), static_cast<unsigned char>(c)));
    }
    if (c == '\t' && in_indentation) {
      Position position = position_of(text, i);
      throw bad_input(fmt::format("{}: a tab in the indentation: YAML allows only spaces there",
                                  source.at(position.line, position.column)));
    }
    in_indentation = c == '\n' || (in_indentation && c == ' ');
  }
}

// Newer versions of the library add the anchor's name, which stands at the place that is told.
std::string message_of(const YAML::Exception& error) {
  constexpr std::string_view kUnknownAnchor = "the referenced anchor is not defined";
  return error.msg.starts_with(kUnknownAnchor) ? std::string(kUnknownAnchor) : printable(error.msg);
}

}  // namespace

std::string YamlSource::at(int line, int column) const {
  return has_lines ? fmt::format("{}:{}:{}", name, line, column) : name;
}

YamlDocument::YamlDocument(std::string_view text, const YamlSource& source) {
  if (static_cast<int64_t>(text.size()) > kMaxYamlBytes) {
    throw bad_input(fmt::format("{}: {} bytes of text: a recipe has at most {}", source.at(1, 1), text.size(),
                                kMaxYamlBytes));
  }
  check_characters(text, source);
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(values_, source);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    bool has_mark = !error.mark.is_null();
    throw bad_input(
        fmt::format("{}: not valid YAML: {}",
                    source.at(has_mark ? error.mark.line + 1 : 1, has_mark ? error.mark.column + 1 : 1),
                    message_of(error)));
  }
  root_ = builder.root();
  if (root_.value == nullptr) {
    root_.value = &values_.emplace_back();
  }
}

std::string describe(const YamlNode& node) {
  constexpr size_t kMaxShownBytes = 60;
  const YamlValue& value = *node.value;
  switch (value.kind) {
    case YamlValue::Kind::null:
      return "empty";
    case YamlValue::Kind::list:
      return value.items.empty() ? "an empty list" : "a list";
    case YamlValue::Kind::map:
      return "a section with keys of its own";
    case YamlValue::Kind::scalar:
      break;
  }
  bool reads_as_number_or_bool = parse_number(value.text).has_value() || parse_bool(value.text).has_value();
  if (!reads_as_number_or_bool || value.text.size() > kMaxShownBytes) {
    return in_quotes(value.text, kMaxShownBytes);
  }
  return value.plain ? value.text
                     : fmt::format("the text {} in quotes", in_quotes(value.text, kMaxShownBytes));
}

}  // namespace snug
