// Which of a machine's cards: how it is written on the command line, and which one is meant. Host code of
// every build; that there are cards is the CUDA backend's business.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace snug {

struct Card {
  int number = 0;  // among those that this process may see
  std::string name;
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};

// Of "cuda" (the first one), "cuda:2" and "cuda:auto".
struct CardChoice {
  std::optional<int> number = 0;  // nothing: the one with the most free memory
};
// Nothing for text that names no card.
std::optional<CardChoice> parse_card_choice(std::string_view device);

// The number of the card that is meant. Throws bad_input, with the cards there are, if that one is not among
// them.
int pick_card(const CardChoice& choice, std::span<const Card> cards);

}  // namespace snug
