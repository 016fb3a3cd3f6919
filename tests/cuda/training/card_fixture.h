// TrainFixture's counterpart on the card: a plan, its executor and loaded weights.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "base/error.h"
#include "compile/phases.h"
#include "io/safetensors.h"
#include "model/locate.h"
#include "plan/fit.h"
#include "support/reference_case.h"
#include "train/trainer.h"
#include "train/weights.h"

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

class CardFixture {
 public:
  explicit CardFixture(Recipe recipe_to_run, const std::filesystem::path& adapter = {}, bool graphs = true)
      : recipe(std::move(recipe_to_run)),
        spec(locate_model(recipe.model.path).spec),
        backend(CudaOptions{.graphs = graphs}),
        plan(plan_training(recipe, spec, backend)),
        executor(plan, backend),
        runner(executor, recipe.training) {
    load_constants(executor);
    load(Role::base_weights, recipe.model.path);
    if (!adapter.empty()) {
      load(Role::adapters, adapter);
    }
  }

  // One tensor of the model (or its gradient, its adapter), by the file's name for it.
  std::vector<float> tensor(Role role, const std::string& file_name, const std::string& suffix = "") {
    for (const StoredTensor& stored : stored_tensors(plan, role, suffix.empty())) {
      if (stored.name == file_name) {
        Tensor source = executor.tensor(kLoadPhase, stored.buffer + suffix);
        std::vector<float> values(static_cast<size_t>(stored.elements));
        backend.download(values.data(), source.as<float>() + stored.first_element, stored.elements * 4);
        return values;
      }
    }
    ADD_FAILURE() << "no tensor " << file_name;
    return {};
  }

  std::vector<float> gradient(Role role, const std::string& file_name) {
    return tensor(role, file_name, ".grad");
  }

  Recipe recipe;
  ModelSpec spec;
  CudaBackend backend;
  Plan plan;
  Executor executor;
  StepRunner runner;

 private:
  void load(Role role, const std::filesystem::path& path) {
    SafetensorsSet files = SafetensorsSet::open(path);
    require_tensors(plan, role, files, path.string());
    load_tensors(executor, role, files);
  }
};

}  // namespace snug
