// The cards that the CUDA runtime sees.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda_plan/card_rates.h"
#include "backend/cuda_plan/card_use.h"
#include "backend/cuda_plan/cards.h"

namespace snug::cuda {

// Throws environment_error if there is no card, or if its driver is too old.
void require_card();

// Those that this process may see; there has to be one.
std::vector<Card> find_cards();

CardShape read_card_shape(int card);

// By its number, as the driver names its place in the machine.
std::string pci_bus_id(int card);

// 32 hexadecimal digits: no other card has them.
std::string uuid_of(int card);

}  // namespace snug::cuda
