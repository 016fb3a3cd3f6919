// Pass: of the products that are added up in one buffer, the cheap one comes first.
#pragma once

#include "program/program.h"

namespace snug {

// A linear, and a lora_up that adds to all columns of its result: lora_up now writes, and linear adds. Adding
// is free for a product that has much to multiply; for one that has little, reading the sum is half the time.
Program put_adapters_first(Program program);

}  // namespace snug
