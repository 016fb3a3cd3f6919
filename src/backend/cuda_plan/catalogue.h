// Cards that people have, to plan for where there is none: their memory and their units.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/cuda_plan/card_rates.h"

namespace snug {

// What an hour of one costs where it is let, as published there.
struct RentalPrice {
  double dollars_an_hour = 0;
  std::string_view source;
  std::string_view date;  // when that was read
};

struct CatalogueCard {
  std::string_view name;  // as people say it: "RTX 3090"
  // What the driver reports in all: the least that was seen with drivers of the last two years. The figure on
  // the box is larger.
  int64_t memory_bytes = 0;
  cuda::CardShape shape;
  std::optional<RentalPrice> rent = std::nullopt;  // of one card, on demand
};

// By memory, the smallest first.
std::span<const CatalogueCard> card_catalogue();

// "3090", "rtx-3090" and "NVIDIA GeForce RTX 3090" are one card. Throws bad_input for one that is not there,
// with what is near or what there is, and for one that snug does not run on.
const CatalogueCard& find_catalogue_card(std::string_view name);

// docs/cards.md.
std::string catalogue_markdown();

}  // namespace snug
