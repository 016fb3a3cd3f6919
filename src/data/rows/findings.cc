// Checks of one row.
#include "data/rows/findings.h"

#include <algorithm>

#include "data/rows/messages.h"

namespace snug {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool is_empty_answer(const Json& message) {
  auto content = message.find("content");
  return message["role"] == "assistant" && !message.contains("tool_calls") && content != message.end() &&
         content->is_string() && is_blank(content->get_ref<const std::string&>());
}

// Users and assistants take turns after any system message, the assistant last. Other roles (tools) may stand
// anywhere: they answer a call, and the assistant speaks again.
bool is_wrong_order(const Json& messages) {
  std::string last;
  for (const Json& message : messages) {
    const auto& role = message["role"].get_ref<const std::string&>();
    bool answers_nobody = role == "assistant" && last.empty();
    bool again = role == last && (role == "user" || role == "assistant");
    bool is_system = role == "system" || role == "developer";
    bool late_system = is_system && !last.empty();
    if (answers_nobody || again || late_system) {
      return true;
    }
    last = is_system ? "" : role;
  }
  return last != "assistant";
}

bool is_end(int32_t id, const Tokenizer& tokenizer) {
  const std::vector<int32_t>& stops = tokenizer.stop_ids();
  return tokenizer.is_special(id) || id == tokenizer.eos_id() ||
         std::find(stops.begin(), stops.end(), id) != stops.end();
}

// Templates may write a line break behind the token that ends an answer.
bool ends_openly(const Example& example, const Tokenizer& tokenizer) {
  auto last = std::find_if(example.tokens.rbegin(), example.tokens.rend(),
                           [](TokenWord word) { return word.is_learned(); });
  if (last == example.tokens.rend()) {
    return false;
  }
  for (; last != example.tokens.rend() && last->is_learned(); ++last) {
    if (is_end(last->id(), tokenizer)) {
      return false;
    }
    if (!is_blank(tokenizer.bytes(last->id()))) {
      return true;
    }
  }
  return true;
}

bool has_unknown_role(const Json& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const Json& message) {
    return !is_known_role(message["role"].get_ref<const std::string&>());
  });
}

// A rare character happens; a language that the vocabulary has no letters for leaves little else.
bool is_mostly_unknown(const Example& example, int32_t unknown_id) {
  constexpr int64_t kShare = 10;
  auto count = [&](const std::vector<TokenWord>& tokens) {
    return std::count_if(tokens.begin(), tokens.end(),
                         [&](TokenWord word) { return word.id() == unknown_id; });
  };
  int64_t unknown = unknown_id < 0 ? 0 : count(example.source) + count(example.tokens);
  return unknown > 1 && unknown * kShare >= std::ssize(example.source) + std::ssize(example.tokens);
}

}  // namespace

RowFindings inspect_row(const DataRow& row, const Example& example, const Tokenizer& tokenizer) {
  RowFindings found;
  if (row.kind == RowKind::conversation) {
    found.empty_answer = std::any_of(row.messages.begin(), row.messages.end(), is_empty_answer);
    found.wrong_role_order = is_wrong_order(row.messages);
    found.unknown_role = has_unknown_role(row.messages);
  } else if (row.kind == RowKind::pair) {
    found.empty_answer = is_blank(row.completion);
  }
  found.without_end = ends_openly(example, tokenizer);
  found.unfound_answer = example.unfound_answers > 0;
  found.unknown_text = is_mostly_unknown(example, tokenizer.unknown_id());
  return found;
}

}  // namespace snug
