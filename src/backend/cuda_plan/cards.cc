// Choosing among cards.
#include "backend/cuda_plan/cards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"

namespace snug {
namespace {

constexpr std::string_view kCuda = "cuda";
constexpr std::string_view kFreest = "auto";

std::string describe(std::span<const Card> cards) {
  std::vector<std::string> texts;
  for (const Card& card : cards) {
    texts.push_back(fmt::format("cuda:{} ({}, {} of {} free)", card.number, card.name,
                                format_bytes(card.free_bytes), format_bytes(card.total_bytes)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::optional<CardChoice> parse_card_choice(std::string_view device) {
  if (device == kCuda) {
    return CardChoice{};
  }
  if (!device.starts_with(kCuda) || device.substr(kCuda.size()).front() != ':') {
    return std::nullopt;
  }
  std::string_view which = device.substr(kCuda.size() + 1);
  if (which == kFreest) {
    return CardChoice{.number = std::nullopt};
  }
  unsigned short number = 0;
  auto [end, problem] = std::from_chars(which.data(), which.data() + which.size(), number);
  bool is_number = problem == std::errc() && end == which.data() + which.size();
  return is_number ? std::optional(CardChoice{.number = number}) : std::nullopt;
}

int pick_card(const CardChoice& choice, std::span<const Card> cards) {
  SNUG_CHECK(!cards.empty(), "there is no card to pick from");
  auto chosen = choice.number
                    ? std::find_if(cards.begin(), cards.end(),
                                   [&](const Card& card) { return card.number == *choice.number; })
                    : std::max_element(cards.begin(), cards.end(), [](const Card& a, const Card& b) {
                        return a.free_bytes < b.free_bytes;
                      });
  if (chosen == cards.end()) {
    throw bad_input(
        fmt::format("--device is \"cuda:{}\", but the cards here are {}", *choice.number, describe(cards)));
  }
  return chosen->number;
}

}  // namespace snug
