// Sentences of other programs, and what they mean.
#pragma once

#include <span>
#include <string_view>

namespace snug {

struct KnownSentence {
  std::string_view text;  // as it stands in the log, of any case
  std::string_view means;
  std::string_view remedy;
};

std::span<const KnownSentence> known_sentences();

}  // namespace snug
