// What becomes of the matches that a text is split at.
#include "text/tokenizer/split_behavior.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/printable.h"

namespace snug {

SplitBehavior split_behavior_from_text(const std::string& name, const std::string& where) {
  static const std::pair<const char*, SplitBehavior> kBehaviors[] = {
      {"Isolated", SplitBehavior::isolated},
      {"Removed", SplitBehavior::removed},
      {"Contiguous", SplitBehavior::contiguous},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next}};
  for (const auto& [known, behavior] : kBehaviors) {
    if (name == known) {
      return behavior;
    }
  }
  throw bad_input(
      fmt::format("{}: the behavior '{}' is not supported; snug knows Isolated, Removed, Contiguous, "
                  "MergedWithPrevious and "
                  "MergedWithNext.",
                  where, printable(name)));
}

// Whether the next piece goes on with the pending one.
bool SplitJoiner::joins(bool is_match) const {
  if (pending_end_ == pending_begin_) {
    return false;
  }
  switch (behavior_) {
    case SplitBehavior::contiguous:
      return is_match == last_was_match_;
    case SplitBehavior::merged_with_previous:
      return is_match && !last_was_match_;
    case SplitBehavior::merged_with_next:
      return !is_match && last_was_match_;
    case SplitBehavior::isolated:
    case SplitBehavior::removed:
      return false;
  }
  return false;
}

void SplitJoiner::add(std::string_view piece, bool is_match) {
  size_t begin = static_cast<size_t>(piece.data() - text_.data());
  if (joins(is_match)) {
    pending_end_ = begin + piece.size();
  } else {
    flush();
    bool dropped = is_match && behavior_ == SplitBehavior::removed;
    pending_begin_ = begin;
    pending_end_ = dropped ? begin : begin + piece.size();
  }
  last_was_match_ = is_match;
}

void SplitJoiner::flush() {
  if (pending_end_ > pending_begin_) {
    bool first = pending_begin_ == 0;
    visit_(text_.substr(pending_begin_, pending_end_ - pending_begin_),
           {.at_text_start = context_.at_text_start && first, .continues = context_.continues && first});
  }
  pending_begin_ = pending_end_;
}

}  // namespace snug
