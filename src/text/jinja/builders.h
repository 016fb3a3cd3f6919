// Text and lists that grow: the one way to make either, and each counts first.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace snug::jinja {

class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}

  void append(std::string_view text) {
    runtime_.count_bytes(text.size());
    text_ += text;
  }
  void append(char character) { append(std::string_view(&character, 1)); }
  void append_repeated(std::string_view part, size_t times) {
    if (part.empty()) {
      return;
    }
    runtime_.count_bytes(times > SIZE_MAX / part.size() ? SIZE_MAX : times * part.size());
    text_.reserve(text_.size() + times * part.size());
    for (size_t i = 0; i < times; ++i) {
      text_ += part;
    }
  }

  Runtime& runtime() const { return runtime_; }
  size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }
  Value value(bool safe = false) {
    runtime_.count_bytes(sizeof(Value));
    return Value(std::move(text_), safe);
  }

 private:
  Runtime& runtime_;
  std::string text_;
};

class ListBuilder {
 public:
  explicit ListBuilder(Runtime& runtime) : runtime_(runtime) {}

  void append(Value item) {
    runtime_.count_items(1);
    items_.push_back(std::move(item));
  }
  void append_all(const std::vector<Value>& items) {
    runtime_.count_items(items.size());
    items_.insert(items_.end(), items.begin(), items.end());
  }
  void append_text(std::string_view text) { append(runtime_.text(text)); }
  void reverse() { std::reverse(items_.begin(), items_.end()); }

  Runtime& runtime() const { return runtime_; }
  size_t size() const { return items_.size(); }
  const std::vector<Value>& items() const { return items_; }
  Value value(SequenceKind kind = SequenceKind::list) {
    runtime_.count_bytes(sizeof(Sequence));
    return Value::sequence(kind, std::move(items_));
  }

 private:
  Runtime& runtime_;
  std::vector<Value> items_;
};

}  // namespace snug::jinja
