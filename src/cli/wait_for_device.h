// snug train --wait: until the device has room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/cuda_plan/card_use.h"
#include "cli/train_arguments.h"

namespace snug {

// By the build: how the card is used that these arguments mean, without opening it; nothing if it is no card,
// or if nobody can tell.
std::optional<cuda::CardUse> look_at_card(const DeviceArguments& arguments);

// Before the card is opened, which takes memory too. An exit code if the program is to end.
std::optional<int> wait_to_open(const TrainArguments& given);
// Before the plan's memory is taken on the device of that label (Device::label).
std::optional<int> wait_for_device(const TrainArguments& given, const std::string& device,
                                   int64_t wanted_bytes);

}  // namespace snug
