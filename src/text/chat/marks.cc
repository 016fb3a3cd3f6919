// Marks in the texts of a conversation.
#include "text/chat/marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

#include "text/jinja/text.h"

namespace snug {

namespace {

using jinja::Dict;
using jinja::Value;

// Private-use characters, which no template touches and no sensible text contains.
constexpr std::string_view kOpen = "\uE0F0";
constexpr std::string_view kClose = "\uE0F1";

class Marker {
 public:
  explicit Marker(size_t message) : message_(message) {}

  Value text(const Value& value) { return text(value, next_++); }

  Value text(const Value& value, size_t number) const {
    std::string_view whole = value.string();
    std::string_view kept = jinja::strip(whole, {.left = false, .right = true});
    if (kept.empty()) {
      return value;
    }
    return Value(
        fmt::format("{}{}{}.{}{}{}", kept, kOpen, message_, number, kClose, whole.substr(kept.size())));
  }

  // Every string in it but the keys.
  Value strings(const Value& value) {
    if (value.is_string()) {
      return text(value);
    }
    if (value.is_sequence()) {
      std::vector<Value> items;
      for (const Value& item : value.sequence().items) {
        items.push_back(strings(item));
      }
      return Value::sequence(value.sequence().kind, std::move(items));
    }
    return value.is_dict()
               ? members(value, [&](std::string_view, const Value& member) { return strings(member); })
               : value;
  }

  // [{"type": "text", "text": ...}, ...] or a string.
  Value content(const Value& value) {
    return value.is_string() ? text(value, kContentMark) : only(value, {"text"});
  }

  // {"name": ..., "arguments": ...}, or a list of them; also with each under "function".
  Value calls(const Value& value) { return only(value, {"name", "arguments"}); }

  template <typename Change>
  static Value members(const Value& value, Change change) {
    Dict changed;
    for (const auto& [key, member] : value.dict().items()) {
      changed.append(key, change(key.is_string() ? std::string_view(key.string()) : "", member));
    }
    return Value(std::make_shared<const Dict>(std::move(changed)));
  }

 private:
  // The strings under these keys, wherever they are. Others (a call's id or type) are compared or measured.
  Value only(const Value& value, const std::vector<std::string_view>& keys) {
    if (value.is_sequence()) {
      std::vector<Value> items;
      for (const Value& item : value.sequence().items) {
        items.push_back(only(item, keys));
      }
      return Value::sequence(value.sequence().kind, std::move(items));
    }
    if (!value.is_dict()) {
      return value;
    }
    return members(value, [&](std::string_view name, const Value& member) {
      bool marked = std::find(keys.begin(), keys.end(), name) != keys.end();
      return marked ? strings(member) : only(member, keys);
    });
  }

  size_t message_;
  size_t next_ = kContentMark + 1;
};

std::optional<size_t> take_number(std::string_view& text, char behind) {
  size_t number = 0;
  auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  auto length = static_cast<size_t>(result.ptr - text.data());
  if (result.ec != std::errc() || (behind != '\0' && !text.substr(length).starts_with(behind))) {
    return std::nullopt;
  }
  text.remove_prefix(length + (behind != '\0' ? 1 : 0));
  return number;
}

}  // namespace

std::optional<std::pair<MarkId, size_t>> MarkedText::last_of(size_t message) const {
  std::optional<std::pair<MarkId, size_t>> last;
  for (auto place = places.lower_bound({message, 0}); place != places.end() && place->first.first == message;
       ++place) {
    if (!last || place->second > last->second) {
      last = *place;
    }
  }
  return last;
}

std::optional<std::pair<MarkId, size_t>> MarkedText::last_before(size_t message) const {
  size_t own = text.size();
  auto first_own = places.lower_bound({message, 0});
  for (auto place = first_own; place != places.end() && place->first.first == message; ++place) {
    own = std::min(own, place->second);
  }
  std::optional<std::pair<MarkId, size_t>> last;
  for (auto place = places.begin(); place != first_own; ++place) {
    if (place->second < own && (!last || place->second > last->second)) {
      last = *place;
    }
  }
  return last;
}

Value with_marks(const Value& message, size_t index, MarkedParts parts) {
  Marker marker(index);
  return Marker::members(message, [&](std::string_view name, const Value& member) {
    if (name == "content" && parts != MarkedParts::calls) {
      return marker.content(member);
    }
    if (name == "tool_calls" && parts != MarkedParts::content) {
      return marker.calls(member);
    }
    bool is_reasoning = name == "reasoning_content" || name == "thinking" || name == "reasoning";
    return is_reasoning && parts == MarkedParts::all ? marker.strings(member) : member;
  });
}

std::optional<MarkedText> without_marks(std::string_view rendered) {
  MarkedText result;
  for (size_t open = rendered.find(kOpen); open != std::string_view::npos; open = rendered.find(kOpen)) {
    result.text += rendered.substr(0, open);
    rendered.remove_prefix(open + kOpen.size());
    std::optional<size_t> message = take_number(rendered, '.');
    std::optional<size_t> number = message ? take_number(rendered, '\0') : std::nullopt;
    if (!number || !rendered.starts_with(kClose)) {
      return std::nullopt;
    }
    rendered.remove_prefix(kClose.size());
    result.places.emplace(MarkId(*message, *number), result.text.size());  // the first one counts
  }
  result.text += rendered;
  return result;
}

}  // namespace snug
