// Which columns of a row mean what.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

enum class RowFormatKind : uint8_t {
  text,               // "text"
  prompt_completion,  // "prompt" and "completion" or "response": strings, or lists of messages
  instruction,        // "instruction", "input" (may be missing or empty), "output"
  input_output,       // "input" and "output"
  messages,           // "messages": a list of {"role", "content"}
  conversations,      // "conversations": a list of {"from", "value"}, as ShareGPT writes it
  columns,            // as RowColumns says
};

constexpr bool holds_conversations(RowFormatKind kind) {
  return kind == RowFormatKind::messages || kind == RowFormatKind::conversations;
}

// Columns of the user's choice.
struct RowColumns {
  std::string prompt_template;  // "Question: {question}\nHint: {hint}"; {{ and }} are braces
  std::string completion;       // the column that is learned
  std::string system;           // "" for none
};

struct RowFormat {
  RowFormatKind kind = RowFormatKind::text;
  RowColumns columns;       // for `columns` only
  std::string description;  // one sentence for people: what, and why it was chosen
};

// The format of that name (text, prompt_completion, ...), as the user asked for it. Throws bad_input for
// another name.
RowFormat named_row_format(std::string_view name);
RowFormat row_format_from_columns(RowColumns columns);

// Chosen by the columns of some rows, each a list of names. Throws bad_input, starting with `place`, if no
// format fits them.
RowFormat choose_row_format(const std::vector<std::vector<std::string>>& rows, const std::string& place);

// The parts of a prompt template: text, then column, then text, ... Throws bad_input if braces do not match.
struct PromptPart {
  std::string text;
  std::string column;  // "" after the last text
};
std::vector<PromptPart> parse_prompt_template(std::string_view prompt_template);

}  // namespace snug
