// Rows to examples.
#include "data/row_encoder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace snug {
namespace {

// Keeps `max_tokens` of the ids, from the side that is not cut; returns how many are gone.
template <typename Values>
int64_t cut(Values& values, int64_t max_tokens, TruncationSide side) {
  int64_t excess = std::max<int64_t>(static_cast<int64_t>(values.size()) - max_tokens, 0);
  auto begin = side == TruncationSide::left ? values.begin() : values.end() - excess;
  values.erase(begin, begin + excess);
  return excess;
}

}  // namespace

EncodedRow RowEncoder::encode(const DataRow& row) const {
  if (options_.decoder_start_id) {
    return encode_source_and_target(row);
  }
  switch (row.kind) {
    case RowKind::text:
      return row.text.empty() ? EncodedRow{} : fit(encode_text(row.text));
    case RowKind::pair:
      if (row.completion.empty()) {
        return {};
      }
      return fit(chat_template_ == nullptr ? encode_pair(row) : encode_chat(row.as_messages(), row.tools));
    case RowKind::conversation:
      return fit(encode_chat(row.messages, row.tools));
  }
  return {};
}

RowEncoder::Sequence RowEncoder::encode_text(const std::string& text) const {
  Sequence sequence;
  append(sequence, tokenizer_.opening_ids(), true);
  append(sequence, tokenizer_.encode(text), true);
  append_end(sequence);
  return sequence;
}

RowEncoder::Sequence RowEncoder::encode_pair(const DataRow& row) const {
  std::string prompt = row.system.empty() ? row.prompt : row.system + "\n\n" + row.prompt;
  Sequence sequence;
  append(sequence, tokenizer_.opening_ids(), false);
  // Apart, so that the prompt has the same ids as when it is given alone to generate from.
  append(sequence, tokenizer_.encode(prompt), false);
  append(sequence,
         prompt.empty() ? tokenizer_.encode(row.completion) : tokenizer_.encode_continuation(row.completion),
         true);
  append_end(sequence);
  return sequence;
}

RowEncoder::Sequence RowEncoder::encode_chat(const Json& messages, const Json& tools) const {
  if (chat_template_ == nullptr) {
    throw bad_input(
        "a conversation needs a chat template, and this model brings none: set data.chat_template to a name "
        "such as chatml, or to a file");
  }
  ChatOptions chat_options;
  chat_options.tools = tools;
  RenderedChat chat = chat_template_->render_with_answers(messages, chat_options);
  if (options_.train_on == TrainOn::last_completion && chat.assistant.size() > 1) {
    chat.assistant.erase(chat.assistant.begin(), chat.assistant.end() - 1);
  }
  Sequence sequence;
  // Templates write their own opening tokens, so none are added. Parts are encoded apart, as a prompt is when
  // an answer is generated behind it.
  auto append_part = [&](size_t begin, size_t end, bool learned) {
    std::string_view part = std::string_view(chat.text).substr(begin, end - begin);
    append(sequence, begin == 0 ? tokenizer_.encode(part) : tokenizer_.encode_continuation(part), learned);
  };
  size_t done = 0;
  for (const AnswerRange& answer : chat.assistant) {
    append_part(done, answer.begin, false);
    append_part(answer.begin, answer.end, true);
    done = answer.end;
  }
  append_part(done, chat.text.size(), false);
  return sequence;
}

// The encoder reads the prompt; the decoder learns the completion.
EncodedRow RowEncoder::encode_source_and_target(const DataRow& row) const {
  if (row.kind != RowKind::pair) {
    throw bad_input(
        "a model with an encoder learns from pairs: give each row a \"prompt\", which the encoder reads, and "
        "a "
        "\"completion\"");
  }
  if (row.completion.empty()) {
    return {};
  }
  Sequence source;
  append(source, tokenizer_.encode(row.system.empty() ? row.prompt : row.system + "\n\n" + row.prompt),
         false);
  append_end(source);
  Sequence target;
  append(target, tokenizer_.encode(row.completion), true);
  append_end(target);
  int64_t max_target =
      options_.max_target_tokens > 0 ? options_.max_target_tokens : options_.max_length_tokens;
  EncodedRow encoded;
  encoded.cut_tokens = cut(source.ids, options_.max_length_tokens, options_.truncation_side) +
                       cut(target.ids, max_target, options_.truncation_side);
  if (options_.truncation == Truncation::drop && encoded.cut_tokens > 0) {
    return {{}, 0, true};
  }
  if (!source.ids.empty() && !target.ids.empty()) {
    encoded.examples.push_back(
        make_pair_example(std::move(source.ids), std::move(target.ids), *options_.decoder_start_id));
  }
  return encoded;
}

void RowEncoder::append(Sequence& sequence, const std::vector<int32_t>& ids, bool learned) const {
  sequence.ids.insert(sequence.ids.end(), ids.begin(), ids.end());
  sequence.learned.resize(sequence.ids.size(), learned || options_.train_on == TrainOn::everything);
}

void RowEncoder::append_end(Sequence& sequence) const {
  if (tokenizer_.eos_id()) {
    append(sequence, {*tokenizer_.eos_id()}, true);
  }
}

EncodedRow RowEncoder::fit(Sequence sequence) const {
  EncodedRow encoded;
  auto length = static_cast<int64_t>(sequence.ids.size());
  bool too_long = length > options_.max_length_tokens;
  if (too_long && options_.truncation == Truncation::drop) {
    encoded.too_long = true;
    return encoded;
  }
  int64_t piece = length;
  if (too_long && options_.truncation == Truncation::cut) {
    encoded.cut_tokens = cut(sequence.ids, options_.max_length_tokens, options_.truncation_side);
    cut(sequence.learned, options_.max_length_tokens, options_.truncation_side);
    piece = options_.max_length_tokens;
  } else if (too_long) {
    piece = options_.max_length_tokens;
  }
  for (int64_t first = 0; first < static_cast<int64_t>(sequence.ids.size()); first += piece) {
    int64_t last = std::min(first + piece, static_cast<int64_t>(sequence.ids.size()));
    Example example =
        make_masked_example({sequence.ids.begin() + first, sequence.ids.begin() + last},
                            {sequence.learned.begin() + first, sequence.learned.begin() + last});
    if (example.has_target()) {
      encoded.examples.push_back(std::move(example));
    }
  }
  return encoded;
}

}  // namespace snug
