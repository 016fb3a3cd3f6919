// Finding the answers in a rendered conversation.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/value.h"

namespace snug {

class AnswerFinder {
 public:
  AnswerFinder(const ChatTemplate& chat_template, std::vector<jinja::Value> messages,
               const ChatOptions& options);
  RenderedChat find();

 private:
  using Messages = std::vector<jinja::Value>;

  // The text of the first `count` messages; nothing if the template refuses them.
  std::optional<std::string> render_prefix(size_t count, bool add_generation_prompt) const;
  std::vector<AnswerRange> by_marks(const jinja::Rendering& rendering) const;
  std::optional<AnswerRange> by_prefix(size_t index) const;
  std::optional<AnswerRange> by_content(size_t index) const;
  std::optional<AnswerRange> by_marked_content(size_t index, const std::string& content) const;
  std::optional<size_t> match_turn_end(std::string_view rest, std::string_view tail) const;
  size_t with_own_space(size_t index, size_t begin) const;
  size_t skip_header(size_t index, size_t begin, size_t end) const;
  size_t without_trailing_space(size_t index, size_t begin, size_t end) const;
  std::string content(size_t index) const;

  const ChatTemplate& template_;
  Messages messages_;
  const ChatOptions& options_;
  std::vector<size_t> answers_;  // the indices of the assistant's messages
  std::string text_;             // of the whole conversation
};

}  // namespace snug
