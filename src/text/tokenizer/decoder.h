// Tokens back to text: tokenizer.json's "decoder".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/json.h"

namespace snug {

// One decoder of the list: pieces in, pieces out.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::vector<std::string>& pieces) const = 0;
  // The same for one piece of a text of which the rest is not known yet. `at_start`: nothing came before it.
  virtual void apply_one(std::string& piece, bool at_start) const = 0;
};

class Decoder {
 public:
  // `description` is the JSON under "decoder"; a type that is not known is refused by name and place. Without
  // one, pieces are put together with spaces between them, as the reference implementation does.
  static Decoder from_json(const Json& description, const std::string& path);

  // What the pieces, as the vocabulary writes them, say together.
  std::string decode(std::vector<std::string> pieces) const;

  // What one piece says in the middle of a text; may be part of a character. `at_start`: nothing was said
  // before.
  std::string decode_one(const std::string& piece, bool at_start) const;

 private:
  void append_steps(const Json& description, const std::string& where);
  void append_step(const std::string& type, const Json& description, const std::string& where);

  std::vector<std::unique_ptr<DecoderStep>> steps_;
  bool given_ = false;
  bool fused_ = false;  // a step so far has made one piece of all
};

}  // namespace snug
