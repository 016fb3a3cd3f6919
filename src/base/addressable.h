// Memory that AddressSanitizer is asked about at once, for loops that are compiled without it.
#pragma once

#include <cstdint>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define SNUG_ASKS_FOR_ADDRESSES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SNUG_ASKS_FOR_ADDRESSES
#endif
#endif

#ifdef SNUG_ASKS_FOR_ADDRESSES
#include <sanitizer/asan_interface.h>
#endif

namespace snug {

// Under AddressSanitizer ends the program unless all of it may be read and written; else does nothing.
template <typename T>
void require_addressable([[maybe_unused]] const T* values, [[maybe_unused]] int64_t count) {
#ifdef SNUG_ASKS_FOR_ADDRESSES
  auto* begin = const_cast<void*>(static_cast<const void*>(values));
  SNUG_CHECK(__asan_region_is_poisoned(begin, static_cast<size_t>(count) * sizeof(T)) == nullptr,
             "a row goes on where no memory is");
#endif
}

}  // namespace snug
