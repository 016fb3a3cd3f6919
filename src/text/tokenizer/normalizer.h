// What a tokenizer does to text before it looks at it: tokenizer.json's "normalizer".
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace snug {

// One normalizer of the list: text in, text out.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // Writes the new text to `result` and returns true, or returns false where nothing changes. `continues`:
  // the text follows other text, so nothing is put before it.
  virtual bool apply(std::string_view text, bool continues, std::string& result) const = 0;
};

class Normalizer {
 public:
  // The text in between steps; kept by the caller, so that encoding allocates nothing in the long run.
  using Buffers = std::array<std::string, 2>;

  // `description` is the JSON under "normalizer". A type that is not known is refused by name and place:
  // ignoring one would give other ids than the model was trained with.
  static Normalizer from_json(const Json& description, const std::string& path);

  // The result lies in `text` or in `buffers`. `text` is UTF-8.
  std::string_view apply(std::string_view text, bool continues, Buffers& buffers) const;
  std::string apply(std::string_view text) const;

 private:
  std::vector<std::unique_ptr<NormalizerStep>> steps_;
};

}  // namespace snug
