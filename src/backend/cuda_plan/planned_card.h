// A card to plan for, whether or not there is one: any build, no toolkit, no driver. Its arenas are those
// that the CUDA backend takes, to the byte; what the driver takes beside them is an estimate.
#pragma once

#include <string>

#include "backend/cuda_plan/context.h"
#include "backend/cuda_plan/needs.h"
#include "backend/device.h"

namespace snug {

class PlannedCard : public Device {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string description() const override {
    return "planned without a card; the driver's context is an estimate";
  }
  std::string find_unsupported(const Program& program, const Op& op) const override {
    return cuda::find_unsupported(program, op);
  }
  int64_t workspace_bytes(const Program& program, const Op& op) const override {
    return cuda::workspace_bytes(program, op);
  }
  // How much a card has that is not here is for the recipe to say (memory.limit).
  std::optional<int64_t> device_total_bytes() const override { return std::nullopt; }
  int64_t context_bytes() const override { return cuda::kTypicalContextBytes + cuda::kLateLoadingBytes; }
};

}  // namespace snug
