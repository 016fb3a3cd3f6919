// Rates of a made-up card, in round numbers.
#pragma once

#include "plan/speed.h"

namespace snug {

inline constexpr DeviceRates kRates = {
    .product_flops = 800e12, .ceiling_flops = 700e12, .bytes_per_second = 4e12, .seconds_per_op = 1e-6};

}  // namespace snug
