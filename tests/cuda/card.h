// Whether there is a card, asked in one way. Tests skip themselves where there is none, unless
// SNUG_REQUIRE_CARD=1 says that there has to be one: then they fail, so that a machine with a card never
// passes without using it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "backend/cuda/cuda_backend.h"
#include "base/error.h"

namespace snug {

struct OpenedCard {
  std::unique_ptr<CudaBackend> backend;  // null where there is no card
  std::string problem;                   // why not
};

// Opened once for the whole test program: it takes a second, and what a context takes shows at the first
// time.
inline const OpenedCard& opened_card() {
  static const OpenedCard card = [] {
    OpenedCard opened;
    try {
      opened.backend = std::make_unique<CudaBackend>();
    } catch (const Error& error) {
      opened.problem = error.what();
    }
    return opened;
  }();
  return card;
}

inline CudaBackend* shared_card() {
  return opened_card().backend.get();
}

inline bool card_is_required() {
  const char* value = std::getenv("SNUG_REQUIRE_CARD");
  return value != nullptr && std::string(value) == "1";
}

#define SKIP_WITHOUT_CARD()                                               \
  if (shared_card() == nullptr && card_is_required()) {                   \
    FAIL() << "SNUG_REQUIRE_CARD is set, but: " << opened_card().problem; \
  } else if (shared_card() == nullptr) {                                  \
    GTEST_SKIP() << opened_card().problem;                                \
  }

}  // namespace snug
