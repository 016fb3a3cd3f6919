// How much rounding a whole model's results may show. Nobody can write down how a model magnifies errors, so
// it is measured: by how much do the results move when every weight moves a little? A product that was
// rounded is the exact product with slightly other weights (backward error), so the answer is the condition
// that rounding meets.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "support/reference_case.h"
#include "support/rounding.h"
#include "support/train_fixture.h"

namespace snug {

// Of one sum in the model's products: the error relative to it.
inline double product_error(const ModelSpec& spec, int64_t tokens) {
  int64_t inner_width = first_of<GatedMlp>(spec.decoder).inner_width;
  int64_t mixed_width = first_of<Attention>(spec.decoder).q_width();
  return fp32_error(
      static_cast<double>(std::max({spec.width, inner_width, mixed_width, spec.vocabulary, tokens})));
}

// Results by name: losses, norms, tensors.
using NamedResults = std::map<std::string, std::vector<float>>;

// Runs `run(fixture)`, which returns NamedResults, on the recipe's weights, and on weights that are off by a
// relative noise; says what the former returned and by how much the latter differ.
struct Shaken {
  NamedResults results;
  std::map<std::string, double> response;  // the root mean square of the relative differences

  template <typename Run>
  Shaken(const Recipe& recipe, const std::filesystem::path& adapter, double noise, const Run& run) {
    constexpr int kDraws = 3;
    {
      TrainFixture fixture(recipe, adapter);
      results = run(fixture);
    }
    for (uint64_t draw = 1; draw <= kDraws; ++draw) {
      TrainFixture fixture(recipe, adapter);
      fixture.shake_weights(noise, draw);
      for (const auto& [name, values] : run(fixture)) {
        double difference = relative_difference(values, results.at(name));
        response[name] += difference * difference / kDraws;
      }
    }
    for (auto& [name, squares] : response) {
      squares = std::sqrt(squares);
    }
  }
};

}  // namespace snug
