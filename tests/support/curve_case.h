// 50 steps of full fine-tuning as Hugging Face takes them (tools/make_curve_references.py).
#pragma once

#include <gtest/gtest.h>

#include "io/json.h"
#include "support/reference_case.h"
#include "train/trainer.h"

namespace snug {

inline Json read_curve(const std::string& name) {
  return read_json(reference_folder(name) / "curve.json");
}

inline Recipe curve_recipe(const std::string& name) {
  Recipe recipe = reference_recipe(reference_folder(name));
  Json curve = read_curve(name);
  const Json& settings = curve["settings"];
  recipe.data.max_target_length = 13;
  recipe.training.learning_rate = settings["learning_rate"].get<double>();
  recipe.training.warmup_steps = settings["warmup_steps"].get<int64_t>();
  recipe.training.adam_beta1 = settings["adam_beta1"].get<double>();
  recipe.training.adam_beta2 = settings["adam_beta2"].get<double>();
  recipe.training.adam_epsilon = settings["adam_epsilon"].get<double>();
  recipe.training.weight_decay = settings["weight_decay"].get<double>();
  recipe.training.max_grad_norm = settings["max_grad_norm"].get<double>();
  recipe.training.lr_scheduler_type = Schedule::linear;
  return recipe;
}

// The largest difference of a step's loss from Hugging Face's, relative to it. The runner's weights are
// trained.
inline double largest_difference_from_curve(StepRunner& runner, const std::string& name) {
  Json curve = read_curve(name);
  const Json& steps = curve["steps"];
  EXPECT_EQ(steps.size(), 50U);
  double largest = 0;
  for (size_t step = 0; step < steps.size(); ++step) {
    std::vector<Batch> micro_batches;
    for (const Json& indices : steps[step]["micro_batches"]) {
      micro_batches.push_back(batch_of_sequences(curve["sequences"], indices.get<std::vector<size_t>>()));
    }
    double wanted = steps[step]["loss"].get<double>();
    double loss = runner.run_step(micro_batches, static_cast<int64_t>(step), 50).loss;
    largest = std::isfinite(loss) ? std::max(largest, std::abs(loss - wanted) / wanted) : loss;
  }
  return largest;
}

}  // namespace snug
