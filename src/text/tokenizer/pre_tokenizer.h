// Cutting normalized text into the words that a model encodes one by one: tokenizer.json's "pre_tokenizer".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace snug {

// Where a piece of text stands.
struct PieceContext {
  bool at_text_start = true;  // nothing comes before it, not even an added token
  bool continues = false;     // it goes on with other text: nothing is put before it
};

using WordVisitor = std::function<void(std::string_view word)>;

// One pre-tokenizer of the list.
class SplitStep {
 public:
  virtual ~SplitStep() = default;
  using Visitor = std::function<void(std::string_view piece, const PieceContext& context)>;
  // Visits pieces in order; they may lie in memory that is gone after the call.
  virtual void run(std::string_view text, const PieceContext& context, const Visitor& visit) const = 0;
};

class PreTokenizer {
 public:
  // `description` is the JSON under "pre_tokenizer"; a type that is not known is refused by name and place.
  static PreTokenizer from_json(const Json& description, const std::string& path);

  // Words in order; `text` is UTF-8.
  void split(std::string_view text, const PieceContext& context, const WordVisitor& visit) const;
  // Words are bytes, and the vocabulary is written in the byte alphabet.
  bool is_byte_level() const { return byte_level_; }

 private:
  void run_step(size_t index, std::string_view text, const PieceContext& context,
                const WordVisitor& visit) const;

  std::vector<std::unique_ptr<SplitStep>> steps_;
  bool byte_level_ = false;
};

}  // namespace snug
