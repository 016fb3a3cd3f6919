// What a tokenizer does to text before it looks at it: tokenizer.json's "normalizer".
#pragma once

#include <string>
#include <string_view>

#include "io/json.h"

namespace snug {

// Canonical composition; bytes that are not UTF-8 stay as they are.
std::string normalize_nfc(std::string_view text);

class Normalizer {
 public:
  // `description` is the JSON under "normalizer": null, {"type": "NFC"} or a Sequence of these. Others are
  // refused by name: ignoring one would give other ids than the model was trained with.
  static Normalizer from_json(const Json& description, const std::string& path);

  std::string apply(std::string_view text) const;

 private:
  bool nfc_ = false;
};

}  // namespace snug
