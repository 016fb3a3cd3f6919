// YAML text as a tree in which every node knows its line and column, and duplicate keys are still visible.
// Untrusted text is safe here: size and nesting are bounded, and an alias is a pointer, never a copy.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

inline constexpr int64_t kMaxYamlBytes = 1'000'000;
inline constexpr int kMaxYamlDepth = 100;

struct YamlValue;

// One place in the text. Where the text says *alias, the position is the alias's and the value is shared.
struct YamlNode {
  int line = 1;  // counted from 1, as editors do
  int column = 1;
  const YamlValue* value = nullptr;
};

struct YamlValue {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;             // a scalar's
  bool plain = false;           // a scalar without quotes: `3` may be a number, `"3"` is text
  bool complete = true;         // false while its end has not been seen: an alias to it would be a cycle
  std::vector<YamlNode> items;  // list: the elements; map: key, value, key, value, ...
};

// Names the text in messages. A file has lines; a command line argument is its own position.
struct YamlSource {
  std::string name;
  bool has_lines = true;

  std::string at(int line, int column) const;  // "demo.yml:7:3"
  std::string at(const YamlNode& node) const { return at(node.line, node.column); }
};

class YamlDocument {
 public:
  // Throws bad_input for text that is too large, not UTF-8, not YAML, or more than one document. Text with
  // no document at all gives a null root.
  YamlDocument(std::string_view text, const YamlSource& source);
  YamlDocument(const YamlDocument&) = delete;
  YamlDocument& operator=(const YamlDocument&) = delete;

  const YamlNode& root() const { return root_; }

 private:
  // Owns all nodes at once: freeing a long chain of aliases must not recurse along it.
  std::deque<YamlValue> values_;
  YamlNode root_;
};

// What a message says was found: `"fast"`, `2.5`, `a list`, `empty`. Long text is cut, control characters
// are escaped.
std::string describe(const YamlNode& node);

}  // namespace snug
