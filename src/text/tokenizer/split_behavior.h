// What becomes of the matches that a text is split at: kept apart, dropped, or joined to a neighbour.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer/pre_tokenizer.h"

namespace snug {

enum class SplitBehavior : uint8_t { isolated, removed, contiguous, merged_with_previous, merged_with_next };

// "Isolated", "Removed", ...; throws bad_input naming `where` for anything else.
SplitBehavior split_behavior_from_text(const std::string& name, const std::string& where);

// Takes the pieces of a text one after the other, matches and what lies between them, and visits what the
// behavior makes of them. Pieces must follow each other without a gap; finish() ends the text.
class SplitJoiner {
 public:
  SplitJoiner(std::string_view text, SplitBehavior behavior, const PieceContext& context,
              const SplitStep::Visitor& visit)
      : text_(text), behavior_(behavior), context_(context), visit_(visit) {}

  void add(std::string_view piece, bool is_match);
  void finish() { flush(); }

 private:
  void flush();
  bool joins(bool is_match) const;

  std::string_view text_;
  SplitBehavior behavior_;
  const PieceContext& context_;
  const SplitStep::Visitor& visit_;
  size_t pending_begin_ = 0;  // [begin, end): not visited yet
  size_t pending_end_ = 0;
  bool last_was_match_ = false;
};

}  // namespace snug
