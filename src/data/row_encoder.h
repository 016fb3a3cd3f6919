// From a row of data to what a model reads and learns: the text that the row becomes, which parts of it are
// learned, its tokens, and what happens if they are too many.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/example.h"
#include "data/row_data.h"
#include "recipe/recipe.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace snug {

struct EncodingOptions {
  TrainOn train_on = TrainOn::completions;
  Truncation truncation = Truncation::cut;
  TruncationSide truncation_side = TruncationSide::right;
  int64_t max_length_tokens = 0;
  int64_t max_target_tokens = 0;                 // with an encoder; 0: as max_length_tokens
  std::optional<int32_t> decoder_start_id = {};  // of a model with an encoder
};

struct EncodedRow {
  std::vector<Example> examples;  // several if a long one was split; none if nothing is left to learn
  int64_t cut_tokens = 0;
  bool too_long = false;  // dropped for its length
};

// All methods are const and may be called from several threads at once. Tokenizer and template must outlive
// it.
class RowEncoder {
 public:
  // `chat_template` may be null: pairs are then laid end to end, and conversations refused.
  RowEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template, const EncodingOptions& options)
      : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {}

  // Throws bad_input, without the row's place, for a row that cannot become an example.
  EncodedRow encode(const DataRow& row) const;

 private:
  // Tokens, and for each whether it is learned.
  struct Sequence {
    std::vector<int32_t> ids;
    std::vector<bool> learned;
  };

  Sequence encode_text(const std::string& text) const;
  Sequence encode_pair(const DataRow& row) const;
  Sequence encode_chat(const Json& messages, const Json& tools) const;
  EncodedRow encode_source_and_target(const DataRow& row) const;
  void append(Sequence& sequence, const std::vector<int32_t>& ids, bool learned) const;
  void append_end(Sequence& sequence) const;
  EncodedRow fit(Sequence sequence) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  EncodingOptions options_;
};

}  // namespace snug
