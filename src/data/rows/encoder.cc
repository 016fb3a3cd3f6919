// Rows to tokens.
#include "data/rows/encoder.h"

#include <algorithm>

#include "base/error.h"

namespace snug {

namespace {

// The last answer, found or not.
void keep_last(RenderedChat& chat) {
  if (chat.assistant.size() > 1) {
    chat.assistant.erase(chat.assistant.begin(), chat.assistant.end() - 1);
  }
  if (!chat.unfound.empty()) {
    bool is_found = !chat.assistant.empty() && chat.assistant.back().message > chat.unfound.back();
    is_found ? chat.unfound.clear() : chat.assistant.clear();
  }
}

}  // namespace

RowEncoder::RowEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                       const EncodingOptions& options)
    : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {
  if (chat_template != nullptr) {
    style_ = message_style(*chat_template);
  }
}

Example RowEncoder::encode(const DataRow& row) const {
  if (options_.decoder_start_id) {
    return encode_source_and_target(row);
  }
  switch (row.kind) {
    case RowKind::text:
      return {row.text.empty() ? Tokens() : encode_text(row.text)};
    case RowKind::pair:
      if (row.completion.empty()) {
        return {};
      }
      return chat_template_ == nullptr ? Example{encode_pair(row)}
                                       : encode_chat(row.as_messages(), row.tools);
    case RowKind::conversation:
      return encode_chat(row.messages, row.tools);
  }
  return {};
}

RowEncoder::Tokens RowEncoder::encode_text(const std::string& text) const {
  Tokens tokens;
  append(tokens, tokenizer_.opening_ids(), true);
  append(tokens, with_end(tokenizer_.encode(text)), true);
  return tokens;
}

RowEncoder::Tokens RowEncoder::encode_pair(const DataRow& row) const {
  std::string prompt = row.system.empty() ? row.prompt : row.system + "\n\n" + row.prompt;
  Tokens tokens;
  append(tokens, tokenizer_.opening_ids(), false);
  // Apart, so that the prompt has the same ids as when it is given alone to generate from.
  append(tokens, tokenizer_.encode(prompt), false);
  append(tokens,
         with_end(prompt.empty() ? tokenizer_.encode(row.completion)
                                 : tokenizer_.encode_continuation(row.completion)),
         true);
  return tokens;
}

Example RowEncoder::encode_chat(const Json& messages, const Json& tools) const {
  if (chat_template_ == nullptr) {
    throw bad_input(
        "a conversation needs a chat template, and this model brings none: set data.chat_template to a name "
        "such as chatml, or to a file");
  }
  ChatOptions chat_options;
  chat_options.tools = tools;
  RenderedChat chat = chat_template_->render_with_answers(styled_messages(messages, style_), chat_options);
  Example example;
  if (options_.train_on == TrainOn::last_completion) {
    keep_last(chat);
  }
  if (options_.train_on != TrainOn::everything) {
    example.unfound_answers = std::ssize(chat.unfound);
  }
  // Templates write their own opening tokens, so none are added. Parts are encoded apart, as a prompt is when
  // an answer is generated behind it.
  auto append_part = [&](size_t begin, size_t end, bool learned) {
    std::string_view part = std::string_view(chat.text).substr(begin, end - begin);
    append(example.tokens, begin == 0 ? tokenizer_.encode(part) : tokenizer_.encode_continuation(part),
           learned);
  };
  size_t done = 0;
  for (const AnswerRange& answer : chat.assistant) {
    append_part(done, answer.begin, false);
    append_part(answer.begin, answer.end, true);
    done = answer.end;
  }
  append_part(done, chat.text.size(), false);
  return example;
}

// The encoder reads the prompt; the decoder learns the completion.
Example RowEncoder::encode_source_and_target(const DataRow& row) const {
  if (row.kind != RowKind::pair) {
    throw bad_input(
        "a model with an encoder learns from pairs: give each row a \"prompt\", which the encoder reads, and "
        "a \"completion\"");
  }
  Example example;
  if (row.completion.empty()) {
    return example;
  }
  std::string prompt = row.system.empty() ? row.prompt : row.system + "\n\n" + row.prompt;
  append_tokens(example.source, with_end(tokenizer_.encode(prompt)), false);
  if (example.source.empty()) {  // an encoder must have something to read
    return {};
  }
  append(example.tokens, with_end(tokenizer_.encode(row.completion)), true);
  return example;
}

void RowEncoder::append(Tokens& tokens, const std::vector<int32_t>& ids, bool learned) const {
  append_tokens(tokens, ids, learned || options_.train_on == TrainOn::everything);
}

// Many rows bring their own end token; a second would teach the model to go on behind the first.
std::vector<int32_t> RowEncoder::with_end(std::vector<int32_t> ids) const {
  std::optional<int32_t> end = tokenizer_.eos_id();
  const std::vector<int32_t>& stops = tokenizer_.stop_ids();
  bool ended =
      !ids.empty() && (ids.back() == end || std::find(stops.begin(), stops.end(), ids.back()) != stops.end());
  if (end && !ended) {
    ids.push_back(*end);
  }
  return ids;
}

}  // namespace snug
