// TrainFixture's counterpart on the card.
#pragma once

#include <utility>

#include "backend/cuda/cuda_backend.h"
#include "cuda/card.h"
#include "support/train_fixture.h"

namespace snug {

class CardFixture : public FixtureOn<CudaBackend> {
 public:
  explicit CardFixture(Recipe recipe_to_run, const std::filesystem::path& adapter = {}, bool graphs = true)
      : FixtureOn(std::move(recipe_to_run), adapter, CudaOptions{.graphs = graphs}) {}
};

}  // namespace snug
