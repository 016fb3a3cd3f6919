// From a row of data to what a model reads and learns: the text that the row becomes, its tokens, and which
// of them are learned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/rows/message_style.h"
#include "data/rows/row.h"
#include "data/tokens/example.h"
#include "recipe/recipe.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {

struct EncodingOptions {
  TrainOn train_on = TrainOn::completions;
  std::optional<int32_t> decoder_start_id = {};  // of a model with an encoder
};

// All methods are const and may be called from several threads at once. Tokenizer and template must outlive
// it.
class RowEncoder {
 public:
  // `chat_template` may be null: pairs are then laid end to end, and conversations refused.
  RowEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template, const EncodingOptions& options);

  // However long it is; empty if the row has no text. Throws bad_input, without the row's place, for a row
  // that cannot become an example.
  Example encode(const DataRow& row) const;

 private:
  using Tokens = std::vector<TokenWord>;

  Tokens encode_text(const std::string& text) const;
  Tokens encode_pair(const DataRow& row) const;
  Example encode_chat(const Json& messages, const Json& tools) const;
  Example encode_source_and_target(const DataRow& row) const;
  void append(Tokens& tokens, const std::vector<int32_t>& ids, bool learned) const;
  std::vector<int32_t> with_end(std::vector<int32_t> ids) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  MessageStyle style_;  // of the template
  EncodingOptions options_;
};

}  // namespace snug
