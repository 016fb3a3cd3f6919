// Reference cases in training mode: transformers with its random numbers replaced by the documented masks
// (tools/make_dropout_references.py).
#pragma once

#include <gtest/gtest.h>

#include <numeric>

#include "support/model_rounding.h"
#include "support/reference_case.h"

namespace snug {

struct DropoutCase {
  explicit DropoutCase(const std::string& name)
      : folder(reference_folder(name)),
        reference(read_json(folder / "dropout.json")),
        sequences(read_json(folder / "batch.json")["sequences"]),
        recipe(reference_recipe(folder)) {
    recipe.model.dropout = reference["rate"].get<double>();
    recipe.training.seed = reference["seed"].get<int64_t>();
    wanted["loss"] = {reference["loss"].get<float>()};
    TensorSource gradients = open_tensors(folder / "dropout_gradients.safetensors");
    for (const std::string& tensor : gradients.names()) {
      wanted[tensor] = values_of(gradients.find(tensor));
    }
  }

  std::vector<Batch> whole() const { return {whole_batch(sequences)}; }
  std::vector<Batch> in_two() const {
    std::vector<size_t> rest(sequences.size() - 1);
    std::iota(rest.begin(), rest.end(), 1);
    return {batch_of_sequences(sequences, {0}), batch_of_sequences(sequences, rest)};
  }

  // Loss and every gradient.
  template <typename Fixture>
  NamedResults run(Fixture& fixture, const std::vector<Batch>& micro_batches) const {
    auto step = reference["step"].get<int64_t>();
    auto loss = static_cast<float>(fixture.runner.accumulate_gradients(micro_batches, step));
    NamedResults results = {{"loss", {loss}}};
    for (const auto& [name, values] : wanted) {
      if (name != "loss") {
        results[name] = fixture.gradient(Role::base_weights, name);
      }
    }
    return results;
  }

  std::filesystem::path folder;
  Json reference;
  Json sequences;
  Recipe recipe;
  NamedResults wanted;
};

}  // namespace snug
