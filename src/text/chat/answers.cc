// Finding the answers in a rendered conversation. What a model is trained to say must be known to the byte: a
// header too much teaches it to write headers, an end token too little teaches it never to stop.
#include "text/chat/answers.h"

#include <fmt/format.h>

#include "base/error.h"
#include "text/jinja/text.h"

namespace snug {

namespace {

using jinja::Value;

std::string_view right_stripped(std::string_view text) {
  return jinja::strip(text, {.left = false, .right = true});
}

bool is_assistant(const Value& message) {
  const Value* role = message.dict().find(std::string_view("role"));
  return role != nullptr && role->is_string() && role->string() == "assistant";
}

}  // namespace

AnswerFinder::AnswerFinder(const ChatTemplate& chat_template, Messages messages, const ChatOptions& options)
    : template_(chat_template), messages_(std::move(messages)), options_(options) {
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (is_assistant(messages_[i])) {
      answers_.push_back(i);
    }
  }
}

RenderedChat AnswerFinder::find() {
  jinja::Rendering rendering = template_.render_values(messages_, options_.add_generation_prompt, options_);
  text_ = std::move(rendering.text);
  RenderedChat result;
  if (!rendering.generated.empty() && !rendering.lost_marks) {
    result.assistant = by_marks(rendering);
  } else {
    for (size_t index : answers_) {
      std::optional<AnswerRange> range = by_prefix(index);
      if (!range) {
        range = by_place(index);
      }
      size_t done = result.assistant.empty() ? 0 : result.assistant.back().end;
      if (range && range->begin >= done) {
        result.assistant.push_back(*range);
      } else {
        result.unfound.push_back(static_cast<int64_t>(index));
      }
    }
  }
  if (result.assistant.empty() && !result.unfound.empty()) {
    throw bad_input(fmt::format(
        "{}: cannot tell which part of the rendered text is the answer in message {} of {}: the template "
        "renders it differently in a longer conversation and changes its content. Use a copy of the "
        "template with {{% generation %}} and {{% endgeneration %}} around the answer.",
        template_.name(), result.unfound.front() + 1, messages_.size()));
  }
  result.text = std::move(text_);
  return result;
}

std::vector<AnswerRange> AnswerFinder::by_marks(const jinja::Rendering& rendering) const {
  std::vector<AnswerRange> ranges;
  bool one_each = rendering.generated.size() == answers_.size();
  for (size_t i = 0; i < rendering.generated.size(); ++i) {
    ranges.push_back({rendering.generated[i].begin, rendering.generated[i].end,
                      one_each ? static_cast<int64_t>(answers_[i]) : -1});
  }
  return ranges;
}

std::optional<std::string> AnswerFinder::render(Messages messages, bool add_generation_prompt) const {
  try {
    return template_.render_values(std::move(messages), add_generation_prompt, options_).text;
  } catch (const Error&) {  // many templates refuse a conversation without messages, or one that stops oddly
    return std::nullopt;
  }
}

std::optional<std::string> AnswerFinder::render_first(size_t count, bool add_generation_prompt) const {
  return render({messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(count)},
                add_generation_prompt);
}

std::string AnswerFinder::content(size_t index) const {
  const Value* found = messages_[index].dict().find(std::string_view("content"));
  return found != nullptr && found->is_string() ? found->string() : "";
}

// The answer is what the message adds to the conversation before it, if that is how the template works.
std::optional<AnswerRange> AnswerFinder::by_prefix(size_t index) const {
  std::optional<std::string> before = render_first(index, true);
  if (!before || !text_.starts_with(*before)) {
    return std::nullopt;
  }
  size_t end = text_.size();
  if (index + 1 < messages_.size() || options_.add_generation_prompt) {
    std::optional<std::string> after = render_first(index + 1, false);
    if (!after || !text_.starts_with(*after) || after->size() < before->size()) {
      return std::nullopt;
    }
    end = after->size();
  }
  size_t begin = skip_header(index, before->size(), end);
  if (begin > end) {
    return std::nullopt;
  }
  return AnswerRange{begin, without_trailing_space(index, begin, end), static_cast<int64_t>(index)};
}

// Some templates ignore add_generation_prompt; then what the message adds begins with a header that the model
// does not write itself. White space before the content is the model's.
size_t AnswerFinder::skip_header(size_t index, size_t begin, size_t end) const {
  std::string_view added = std::string_view(text_).substr(begin, end - begin);
  std::string answer(jinja::strip(content(index)));
  constexpr jinja::StripSides kLeft = {.left = true, .right = false};
  if (answer.empty() || jinja::strip(added, kLeft).starts_with(answer)) {
    return begin;
  }
  std::optional<std::string> without_prompt = render_first(index, false);
  bool has_prompt = without_prompt && without_prompt->size() < begin;
  size_t found = added.find(answer);
  return has_prompt || found == std::string_view::npos ? begin : begin + found;
}

// A line end after the end token belongs to the next turn. White space of the answer itself stays.
size_t AnswerFinder::without_trailing_space(size_t index, size_t begin, size_t end) const {
  std::string_view answer = std::string_view(text_).substr(begin, end - begin);
  std::string own = content(index);
  size_t own_end = own.empty() ? std::string_view::npos : answer.rfind(own);
  size_t kept = right_stripped(answer).size();
  if (own_end != std::string_view::npos) {
    kept = std::max(kept, own_end + own.size());
  }
  return begin + kept;
}

}  // namespace snug
