// Finding the answers in a rendered conversation. What a model is trained to say must be known to the byte: a
// header too much teaches it to write headers, an end token too little teaches it never to stop.
#include "text/chat/answers.h"

#include <fmt/format.h>

#include "base/error.h"
#include "text/jinja/text.h"

namespace snug {

namespace {

using jinja::Dict;
using jinja::Value;

// Private-use characters, which no template touches and no sensible text contains.
constexpr std::string_view kOpen = "\uE0F0\uE1F1snug\uE0F2";
constexpr std::string_view kClose = "\uE0F3snug\uE1F4\uE0F5";

std::string_view right_stripped(std::string_view text) {
  return jinja::strip(text, {.left = false, .right = true});
}

Value with_content(const Value& message, std::string content) {
  Dict changed;
  for (const auto& [key, value] : message.dict().items()) {
    changed.append(key, value);
  }
  changed.set("content", Value(std::move(content)));
  return Value(std::make_shared<const Dict>(std::move(changed)));
}

bool is_assistant(const Value& message) {
  const Value* role = message.dict().find(std::string_view("role"));
  return role != nullptr && role->is_string() && role->string() == "assistant";
}

// The place of `part` if the text has it exactly once.
std::optional<size_t> find_once(std::string_view text, std::string_view part) {
  size_t found = text.find(part);
  bool once = found != std::string_view::npos && text.find(part, found + 1) == std::string_view::npos;
  return once ? std::optional(found) : std::nullopt;
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
        range = by_content(index);
      }
      if (!range) {
        throw bad_input(fmt::format(
            "{}: cannot tell which part of the rendered text is the answer in message {} of {}: the template "
            "renders it differently in a longer conversation and changes its content. Use a copy of the "
            "template with {{% generation %}} and {{% endgeneration %}} around the answer.",
            template_.name(), index + 1, messages_.size()));
      }
      result.assistant.push_back(*range);
    }
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

std::optional<std::string> AnswerFinder::render_prefix(size_t count, bool add_generation_prompt) const {
  Messages prefix(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(count));
  try {
    return template_.render_values(std::move(prefix), add_generation_prompt, options_).text;
  } catch (const Error&) {  // many templates refuse a conversation without messages, or one that stops oddly
    return std::nullopt;
  }
}

std::string AnswerFinder::content(size_t index) const {
  const Value* found = messages_[index].dict().find(std::string_view("content"));
  return found != nullptr && found->is_string() ? found->string() : "";
}

// The answer is what the message adds to the conversation before it, if that is how the template works.
std::optional<AnswerRange> AnswerFinder::by_prefix(size_t index) const {
  std::optional<std::string> before = render_prefix(index, true);
  if (!before || !text_.starts_with(*before)) {
    return std::nullopt;
  }
  size_t end = text_.size();
  if (index + 1 < messages_.size() || options_.add_generation_prompt) {
    std::optional<std::string> after = render_prefix(index + 1, false);
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
  std::optional<std::string> without_prompt = render_prefix(index, false);
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

std::optional<AnswerRange> AnswerFinder::by_content(size_t index) const {
  std::string whole = content(index);
  std::string trimmed(jinja::strip(whole));
  if (trimmed.empty()) {
    return std::nullopt;
  }
  std::optional<AnswerRange> range = by_marked_content(index, whole);
  return range || trimmed == whole ? range : by_marked_content(index, trimmed);
}

std::optional<AnswerRange> AnswerFinder::by_marked_content(size_t index, const std::string& content) const {
  Messages marked = messages_;
  marked[index] = with_content(messages_[index], fmt::format("{}{}{}", kOpen, content, kClose));
  Messages marked_prefix(marked.begin(), marked.begin() + static_cast<std::ptrdiff_t>(index) + 1);
  std::string whole;
  std::string tail;  // what follows the content when the conversation ends there: the end of the turn
  try {
    whole = template_.render_values(std::move(marked), options_.add_generation_prompt, options_).text;
    std::string cut = template_.render_values(std::move(marked_prefix), false, options_).text;
    if (auto close = find_once(cut, kClose)) {
      tail = right_stripped(std::string_view(cut).substr(*close + kClose.size()));
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  std::optional<size_t> open = find_once(whole, kOpen);
  std::optional<size_t> close = find_once(whole, kClose);
  if (!open || !close || *close < *open + kOpen.size()) {
    return std::nullopt;
  }
  std::string_view inside =
      std::string_view(whole).substr(*open + kOpen.size(), *close - *open - kOpen.size());
  std::string unmarked = fmt::format("{}{}{}", std::string_view(whole).substr(0, *open), inside,
                                     std::string_view(whole).substr(*close + kClose.size()));
  if (unmarked != text_) {
    return std::nullopt;
  }
  size_t end = *open + inside.size();
  std::string_view rest = std::string_view(text_).substr(end);
  std::optional<size_t> turn_end = match_turn_end(rest, tail);
  if (!turn_end) {
    return std::nullopt;
  }
  end += *turn_end;
  return AnswerRange{with_own_space(index, *open), end, static_cast<int64_t>(index)};
}

// How many bytes of `rest`, the text after an answer, end its turn. `tail` is what follows it where the
// conversation stops there: some templates put one more token at the end of the whole text.
std::optional<size_t> AnswerFinder::match_turn_end(std::string_view rest, std::string_view tail) const {
  std::string eos = template_.special_token("eos_token");
  if (rest.starts_with(tail)) {
    return tail.size();
  }
  if (!eos.empty() && rest.starts_with(eos)) {
    return eos.size();
  }
  if (!eos.empty() && tail.ends_with(eos)) {
    std::string_view shorter = right_stripped(tail.substr(0, tail.size() - eos.size()));
    return !shorter.empty() && rest.starts_with(shorter) ? std::optional(shorter.size()) : std::nullopt;
  }
  return std::nullopt;
}

// White space between what comes before an answer and its content is the model's to write. What comes before
// it is seen where the conversation stops there, although the text further up may differ.
size_t AnswerFinder::with_own_space(size_t index, size_t begin) const {
  std::optional<std::string> prompt = render_prefix(index, true);
  if (!prompt) {
    return begin;
  }
  std::string_view before = right_stripped(std::string_view(text_).substr(0, begin));
  std::string_view space = std::string_view(text_).substr(before.size(), begin - before.size());
  std::string_view prompt_text = right_stripped(*prompt);
  std::string_view prompt_space = std::string_view(*prompt).substr(prompt_text.size());
  constexpr size_t kComparedBytes = 8;
  bool same_end =
      !prompt_text.empty() &&
      before.ends_with(prompt_text.substr(prompt_text.size() - std::min(prompt_text.size(), kComparedBytes)));
  return same_end && space.starts_with(prompt_space) ? before.size() + prompt_space.size() : begin;
}

}  // namespace snug
