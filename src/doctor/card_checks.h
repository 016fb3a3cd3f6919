// Cards: what they are, and who holds their memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda_plan/card_use.h"
#include "backend/device.h"
#include "doctor/check.h"
#include "doctor/process.h"

namespace snug {

using FindProcess = std::function<std::optional<ProcessFacts>(unsigned pid)>;

// Who holds a card's memory, a line each: processes, the largest first, and what no process has.
std::vector<std::string> describe_holders(const cuda::CardUse& use, const FindProcess& find);

// `needs_card`: the program is one that trains on cards. Without NVML there is one line that says so.
std::vector<Check> check_cards(const cuda::NvmlTable& nvml, bool needs_card, const FindProcess& find);

// How fast a card is, beside what its shape lets expect.
Check check_rates(const Device& card);

}  // namespace snug
