// How long an op takes, by its cost and a device's rates.
#pragma once

#include "backend/device.h"
#include "ops/table.h"

namespace snug {

double seconds_of(const OpCost& cost, const DeviceRates& rates);

}  // namespace snug
