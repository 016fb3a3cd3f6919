// Pass: lets a forward program remember keys and values, so that generation computes each token once.
#pragma once

#include <cstdint>

#include "program/program.h"

namespace snug {

// Every self-attention reads its keys and values from a cache of `max_cached_tokens` rows, to which the new
// tokens' rows are written first. Adds the inputs "slots" (the cache row of each new token) and
// "cached_offsets" ({0, tokens in the cache}). One sequence at a time.
Program add_kv_cache(Program forward, int64_t max_cached_tokens);

}  // namespace snug
