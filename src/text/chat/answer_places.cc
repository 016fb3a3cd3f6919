// Finding an answer by what stands around it. Many templates rewrite what was said before: they drop earlier
// thinking, or end the last turn in another way. The text further up is then not the text of a shorter
// conversation; but between the end of the message before and the answer stands what a prompt ends with, and
// behind the answer what follows it when it is the last.
#include "text/chat/answers.h"
#include "text/jinja/text.h"

namespace snug {

namespace {

std::string_view right_stripped(std::string_view text) {
  return jinja::strip(text, {.left = false, .right = true});
}

// From the mark on; all of it if there was none. Nothing if the text has no such mark.
std::optional<std::string_view> text_behind(const MarkedText& marked, const std::optional<MarkId>& mark) {
  if (!mark) {
    return marked.text;
  }
  auto place = marked.places.find(*mark);
  return place == marked.places.end() ? std::nullopt
                                      : std::optional(std::string_view(marked.text).substr(place->second));
}

}  // namespace

std::optional<AnswerRange> AnswerFinder::by_place(size_t index) {
  if (marked_.empty()) {
    place_marks();
  }
  std::optional<size_t> end = find_end(index);
  std::optional<size_t> begin = end ? find_begin(index) : std::nullopt;
  if (!begin || *begin > *end) {
    return std::nullopt;
  }
  return AnswerRange{*begin, *end, static_cast<int64_t>(index)};
}

// All marks at once where that changes nothing but the marks; else message by message, as one that is
// compared or measured by the template must stay as it is.
void AnswerFinder::place_marks() {
  marked_ = messages_;
  for (size_t i = 0; i < messages_.size(); ++i) {
    marked_[i] = with_marks(messages_[i], i, MarkedParts::all);
  }
  std::optional<MarkedText> all = render_marked(marked_, options_.add_generation_prompt);
  if (all && all->text == text_) {
    places_ = std::move(*all);
    return;
  }
  marked_ = messages_;
  places_.text = text_;
  for (size_t i = 0; i < messages_.size(); ++i) {
    place_marks_of(i, MarkedParts::all) || place_marks_of(i, MarkedParts::calls) ||
        place_marks_of(i, MarkedParts::content);
  }
}

bool AnswerFinder::place_marks_of(size_t index, MarkedParts parts) {
  Messages one = messages_;
  one[index] = with_marks(messages_[index], index, parts);
  std::optional<MarkedText> found = render_marked(one, options_.add_generation_prompt);
  if (!found || found->text != text_ || found->places.empty()) {
    return false;
  }
  marked_[index] = one[index];
  places_.places.insert(found->places.begin(), found->places.end());
  return true;
}

std::optional<MarkedText> AnswerFinder::render_marked(Messages messages, bool add_generation_prompt) const {
  std::optional<std::string> rendered = render(std::move(messages), add_generation_prompt);
  return rendered ? without_marks(*rendered) : std::nullopt;
}

AnswerFinder::Messages AnswerFinder::marked_first(size_t count) const {
  return {marked_.begin(), marked_.begin() + static_cast<std::ptrdiff_t>(count)};
}

// What is between the message before and the answer must be what a prompt has there. A prompt may have more:
// the begin of a thought that the rewritten answer no longer has. Then what the template writes before a
// plain answer says where it begins; and where that is something else again, the answer is its content alone.
std::optional<size_t> AnswerFinder::find_begin(size_t index) const {
  std::optional<std::pair<MarkId, size_t>> previous = places_.last_before(index);
  std::optional<MarkId> mark = previous ? std::optional(previous->first) : std::nullopt;
  size_t from = previous ? previous->second : 0;
  std::string_view here = std::string_view(text_).substr(from);
  std::optional<MarkedText> prompt = render_marked(marked_first(index), true);
  std::optional<std::string_view> expected = prompt ? text_behind(*prompt, mark) : std::nullopt;
  if (!expected) {
    return content_begin(index);
  }
  bool as_prompted = here.starts_with(*expected);
  if (as_prompted && !prompt_header(index).empty()) {
    return from + expected->size();
  }
  for (bool in_context : {true, false}) {
    std::optional<std::string> header = header_before(index, mark, in_context);
    if (!header || !here.starts_with(*header)) {
      continue;
    }
    if (!as_prompted && expected->starts_with(*header)) {
      return from + header->size();
    }
    // A template without prompts: the header is not the model's to write, but white space is.
    if (as_prompted && header->starts_with(*expected)) {
      bool is_space = jinja::strip(std::string_view(*header).substr(expected->size())).empty();
      return from + (is_space ? expected->size() : header->size());
    }
  }
  return as_prompted ? std::optional(from + expected->size()) : content_begin(index);
}

// What stands between the mark and an answer of one letter in the place of this one, with what comes after or
// as the last.
std::optional<std::string> AnswerFinder::header_before(size_t index, const std::optional<MarkId>& previous,
                                                       bool in_context) const {
  jinja::Dict plain;
  plain.append(jinja::Value("role"), jinja::Value("assistant"));
  plain.append(jinja::Value("content"), jinja::Value("x"));
  Messages messages = marked_first(in_context ? marked_.size() : index + 1);
  messages[index] = with_marks(jinja::Value(std::make_shared<const jinja::Dict>(std::move(plain))), index,
                               MarkedParts::content);
  std::optional<MarkedText> marked =
      render_marked(std::move(messages), in_context && options_.add_generation_prompt);
  std::optional<std::pair<MarkId, size_t>> answer = marked ? marked->last_of(index) : std::nullopt;
  std::optional<std::string_view> behind = answer ? text_behind(*marked, previous) : std::nullopt;
  size_t rest = answer ? marked->text.size() - answer->second + 1 : 0;  // the letter, and what follows it
  if (!behind || behind->size() < rest) {
    return std::nullopt;
  }
  return std::string(behind->substr(0, behind->size() - rest));
}

// Where the content begins, or what is left of it without its thoughts.
std::optional<size_t> AnswerFinder::content_begin(size_t index) const {
  auto end = places_.places.find({index, kContentMark});
  if (end == places_.places.end()) {
    return std::nullopt;
  }
  constexpr std::string_view kThoughtEnd = "</think>";
  std::string whole = content(index);
  std::string_view all = right_stripped(whole);
  size_t thought = all.rfind(kThoughtEnd);
  std::string_view said = thought == std::string_view::npos ? all : all.substr(thought + kThoughtEnd.size());
  constexpr jinja::StripSides kLeft = {.left = true, .right = false};
  for (std::string_view part : {all, jinja::strip(all, kLeft), said, jinja::strip(said, kLeft)}) {
    if (!part.empty() && std::string_view(text_).substr(0, end->second).ends_with(part)) {
      return end->second - part.size();
    }
  }
  return std::nullopt;
}

// What a prompt adds to the messages before the answer; "" for a template without prompts. Where none
// follows, some templates put a token at the end of the whole text.
std::string AnswerFinder::prompt_header(size_t index) const {
  std::optional<std::string> with = render_first(index, true);
  std::optional<std::string> without = render_first(index, false);
  if (!with || !without) {
    return "";
  }
  std::string eos = template_.special_token("eos_token");
  if (!with->starts_with(*without) && without->ends_with(eos)) {
    without->resize(without->size() - eos.size());
  }
  return with->starts_with(*without) ? with->substr(without->size()) : "";
}

// The answer's turn ends as it does where it is the last, or where a prompt follows it; or with the end
// token.
std::optional<size_t> AnswerFinder::find_end(size_t index) const {
  std::optional<std::pair<MarkId, size_t>> last = places_.last_of(index);
  if (!last) {
    return std::nullopt;
  }
  std::string_view rest = std::string_view(text_).substr(last->second);
  std::string whole = content(index);
  std::string_view own_space = std::string_view(whole).substr(right_stripped(whole).size());
  size_t least = rest.starts_with(own_space) ? own_space.size() : 0;
  auto end_behind = [&](std::string_view tail) { return last->second + std::max(tail.size(), least); };
  for (bool prompt_follows : {false, true}) {
    std::optional<MarkedText> cut = render_marked(marked_first(index + 1), prompt_follows);
    std::optional<std::string_view> tail = cut ? text_behind(*cut, last->first) : std::nullopt;
    std::string header = tail && prompt_follows ? prompt_header(index) : "";
    if (!tail || (prompt_follows && (header.empty() || !tail->ends_with(header)))) {
      continue;
    }
    std::string_view turn_end = right_stripped(tail->substr(0, tail->size() - header.size()));
    if (rest.starts_with(turn_end)) {
      return end_behind(turn_end);
    }
  }
  std::string eos = template_.special_token("eos_token");
  return !eos.empty() && rest.starts_with(eos) ? std::optional(end_behind(eos)) : std::nullopt;
}

}  // namespace snug
