// A card to plan for, whether or not there is one: any build, no toolkit, no driver. Its arenas are those
// that the CUDA backend takes, to the byte; what the driver takes beside them is an estimate.
#pragma once

#include <string>

#include "backend/cuda_plan/catalogue.h"
#include "backend/cuda_plan/context.h"
#include "backend/cuda_plan/needs.h"
#include "backend/device.h"

namespace snug {

class PlannedCard : public Device {
 public:
  // `card`: nothing is known of it if there is none. How much memory it has is then for the recipe to say
  // (memory.limit).
  explicit PlannedCard(const CatalogueCard* card = nullptr) : card_(card) {}

  std::string_view name() const override { return "cuda"; }
  std::string description() const override;
  DeviceRates rates(DType dtype) const override {
    return card_ == nullptr ? DeviceRates{} : cuda::rates_of(card_->shape, dtype, false);
  }
  RatesOrigin rates_origin() const override {
    return {.is_measured = false, .text = card_ == nullptr ? "" : "assumed from the card's shape"};
  }
  std::string find_unsupported(const Program& program, const Op& op) const override {
    return cuda::find_unsupported(program, op, card_ == nullptr ? 0 : card_->shape.capability);
  }
  int64_t workspace_bytes(const Program& program, const Op& op) const override {
    return cuda::workspace_bytes(program, op);
  }
  std::optional<int64_t> device_total_bytes() const override {
    return card_ == nullptr ? std::nullopt : std::optional(card_->memory_bytes);
  }
  int64_t context_bytes() const override { return cuda::kTypicalContextBytes + cuda::kLateLoadingBytes; }

 private:
  const CatalogueCard* card_;
};

}  // namespace snug
