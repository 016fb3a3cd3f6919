// A plan, its executor and loaded weights, for tests that train tiny models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "compile/phases.h"
#include "io/safetensors.h"
#include "model/locate.h"
#include "plan/fit.h"
#include "support/reference_case.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace snug {

// Plans the recipe on a CPU backend, whose memory starts as noise if poisoned, and loads (or makes) its
// weights.
class TrainFixture {
 public:
  explicit TrainFixture(Recipe recipe_to_run, const std::filesystem::path& adapter = {}, bool poison = true)
      : recipe(std::move(recipe_to_run)),
        spec(locate_model(recipe.model.path).spec),
        backend(poison),
        plan(plan_training(recipe, spec, backend)),
        executor(plan, backend),
        runner(executor, recipe.training) {
    load_constants(executor);
    if (recipe.model.from_scratch) {
      initialize_weights(executor, spec, 1);
    } else {
      load(Role::base_weights, recipe.model.path);
    }
    if (recipe.lora && adapter.empty()) {
      initialize_adapters(executor, 1);
    } else if (recipe.lora) {
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
  CpuBackend backend;
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
