// A plan, its executor and loaded weights on any backend, for tests that train tiny models.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "compile/phases.h"
#include "io/safetensors.h"
#include "model/locate.h"
#include "plan/training.h"
#include "support/noisy_backend.h"
#include "support/reference_case.h"
#include "train/adapter_files.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace snug {

// Plans the recipe and loads (or makes) its weights.
template <typename BackendType>
class FixtureOn {
 public:
  template <typename... BackendArguments>
  explicit FixtureOn(Recipe recipe_to_run, const std::filesystem::path& adapter,
                     BackendArguments&&... arguments)
      : recipe(std::move(recipe_to_run)),
        spec(locate_model(recipe.model.path).spec),
        backend(std::forward<BackendArguments>(arguments)...),
        plan(plan_training(recipe, spec, backend)),
        executor(plan, backend),
        runner(executor, recipe.training) {
    load_constants(executor);
    if (recipe.model.from_scratch) {
      initialize_weights(executor, spec, 1);
    } else {
      TensorSource files = open_tensors(recipe.model.path);
      require_tensors(plan, Role::base_weights, files, recipe.model.path);
      load_tensors(executor, Role::base_weights, files);
    }
    if (recipe.lora && adapter.empty()) {
      initialize_adapters(executor, 1);
    } else if (recipe.lora) {
      load_adapter(executor, adapter);
    }
  }

  // One tensor of the model (or its gradient, its adapter), by the file's name for it.
  std::vector<float> tensor(Role role, const std::string& file_name, const std::string& suffix = "") {
    for (const StoredTensor& stored : stored_tensors(plan, role, suffix.empty())) {
      if (stored.name == file_name && suffix.empty()) {
        return exact_values(stored);
      }
      if (stored.name == file_name) {
        Tensor source = executor.tensor(kLoadPhase, stored.buffer + suffix);
        int64_t element_bytes = size_of(source.dtype);
        std::vector<std::byte> raw(static_cast<size_t>(stored.elements * element_bytes));
        backend.download(raw.data(), source.template as<std::byte>() + stored.first_element * element_bytes,
                         static_cast<int64_t>(raw.size()));
        std::vector<float> values(static_cast<size_t>(stored.elements));
        convert(source.dtype, raw.data(), DType::f32, values.data(), stored.elements);
        return values;
      }
    }
    ADD_FAILURE() << "no tensor " << file_name;
    return {};
  }

  std::vector<float> exact_values(const StoredTensor& stored) {
    std::vector<std::byte> raw;
    read_tensor(reader, stored,
                [&](std::span<const std::byte> bytes) { raw.insert(raw.end(), bytes.begin(), bytes.end()); });
    std::vector<float> values(static_cast<size_t>(stored.elements));
    convert(stored.dtype, raw.data(), DType::f32, values.data(), stored.elements);
    return values;
  }

  std::vector<float> gradient(Role role, const std::string& file_name) {
    return tensor(role, file_name, ".grad");
  }

  // Every weight w becomes w (1 + noise x), x normally distributed.
  void shake_weights(double noise, uint64_t seed) {
    Rng rng(seed, 0x7368616b65ULL);
    for (Role role : {Role::base_weights, Role::adapters}) {
      for (const StoredTensor& stored : stored_tensors(plan, role, true)) {
        std::vector<float> values = tensor(role, stored.name);
        for (float& value : values) {
          value *= static_cast<float>(1 + noise * static_cast<double>(rng.normal()));
        }
        Tensor target = executor.tensor(kLoadPhase, stored.buffer);
        SNUG_CHECK(target.dtype == DType::f32, "noise is for tests in fp32");
        backend.upload(target.template as<float>() + stored.first_element, values.data(),
                       stored.elements * size_of(DType::f32));
      }
    }
  }

  Recipe recipe;
  ModelSpec spec;
  BackendType backend;
  Plan plan;
  Executor executor;
  DeviceReader reader{executor};
  StepRunner runner;
};

// On the CPU.
class TrainFixture : public FixtureOn<NoisyBackend> {
 public:
  explicit TrainFixture(Recipe recipe_to_run, const std::filesystem::path& adapter = {})
      : FixtureOn(std::move(recipe_to_run), adapter) {}
};

}  // namespace snug
