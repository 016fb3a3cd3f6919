// Marks in the texts of a conversation, by which they are found again in what a template makes of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/jinja/value.h"

namespace snug {

// A text of a message: the message's index, and the text's number in it.
using MarkId = std::pair<size_t, size_t>;
inline constexpr size_t kContentMark = 0;  // the number of a content that is a string

// What a template wrote, without the marks, and where each mark was first: behind the last letter of its
// text.
struct MarkedText {
  std::string text;
  std::map<MarkId, size_t> places;

  // The mark of the message that is furthest on; nothing if none was written.
  std::optional<std::pair<MarkId, size_t>> last_of(size_t message) const;
  // The mark of an earlier message that is furthest on, but before the message's own.
  std::optional<std::pair<MarkId, size_t>> last_before(size_t message) const;
};

enum class MarkedParts { all, content, calls };

// The message with a mark in each of its texts: content, reasoning, and the names and arguments of tool
// calls. The mark stands before white space at the end, as templates trim that.
jinja::Value with_marks(const jinja::Value& message, size_t index, MarkedParts parts);

// Nothing if a mark is damaged.
std::optional<MarkedText> without_marks(std::string_view rendered);

}  // namespace snug
