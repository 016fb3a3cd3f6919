#include "backend/cuda_plan/planned_card.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace snug {

std::string PlannedCard::description() const {
  std::string text = "planned without a card; the driver's context is an estimate";
  if (card_ == nullptr) {
    return text;
  }
  return fmt::format("{}, of whose memory the driver reports {}; {}", card_->name,
                     format_bytes(card_->memory_bytes), text);
}

}  // namespace snug
