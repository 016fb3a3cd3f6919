// TrainFixture's counterpart on the card.
#pragma once

#include <string>
#include <utility>

#include "backend/cuda/cuda_backend.h"
#include "base/error.h"
#include "support/train_fixture.h"

namespace snug {

// "" if there is a card, else why not.
inline std::string no_card() {
  static const std::string problem = [] {
    try {
      CudaBackend backend;
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  }();
  return problem;
}

class CardFixture : public FixtureOn<CudaBackend> {
 public:
  explicit CardFixture(Recipe recipe_to_run, const std::filesystem::path& adapter = {}, bool graphs = true)
      : FixtureOn(std::move(recipe_to_run), adapter, CudaOptions{.graphs = graphs}) {}
};

}  // namespace snug
