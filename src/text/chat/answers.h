// Finding the answers in a rendered conversation.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/chat/marks.h"
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

  // The text of the messages; nothing if the template refuses them.
  std::optional<std::string> render(Messages messages, bool add_generation_prompt) const;
  std::optional<std::string> render_first(size_t count, bool add_generation_prompt) const;
  std::vector<AnswerRange> by_marks(const jinja::Rendering& rendering) const;

  // By what the message adds to the text of those before it.
  std::optional<AnswerRange> by_prefix(size_t index) const;
  size_t skip_header(size_t index, size_t begin, size_t end) const;
  size_t without_trailing_space(size_t index, size_t begin, size_t end) const;

  // By what stands around it, whatever became of the text further up.
  std::optional<AnswerRange> by_place(size_t index);
  void place_marks();
  bool place_marks_of(size_t index, MarkedParts parts);
  std::optional<MarkedText> render_marked(Messages messages, bool add_generation_prompt) const;
  Messages marked_first(size_t count) const;
  std::optional<size_t> find_begin(size_t index) const;
  std::optional<size_t> find_end(size_t index) const;
  std::optional<std::string> header_before(size_t index, const std::optional<MarkId>& previous,
                                           bool in_context) const;
  std::optional<size_t> content_begin(size_t index) const;
  std::string prompt_header(size_t index) const;

  std::string content(size_t index) const;

  const ChatTemplate& template_;
  Messages messages_;
  const ChatOptions& options_;
  std::vector<size_t> answers_;  // the indices of the assistant's messages
  std::string text_;             // of the whole conversation
  Messages marked_;    // as messages_, with the marks that leave the text as it is; empty until needed
  MarkedText places_;  // where those marks are in text_
};

}  // namespace snug
