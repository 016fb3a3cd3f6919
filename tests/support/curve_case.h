// Steps of training as Hugging Face takes them (tools/make_curve_references.py: 50 of full fine-tuning).
#pragma once

#include <gtest/gtest.h>

#include "io/json.h"
#include "support/reference_case.h"
#include "train/trainer.h"

namespace snug {

inline Json read_curve(const std::string& name) {
  return read_json(reference_folder(name) / "curve.json");
}

inline void apply_settings(const Json& settings, Recipe& recipe) {
  recipe.data.max_target_length = 13;
  recipe.training.learning_rate = settings["learning_rate"].get<double>();
  recipe.training.warmup_steps = settings["warmup_steps"].get<int64_t>();
  recipe.training.adam_beta1 = settings["adam_beta1"].get<double>();
  recipe.training.adam_beta2 = settings["adam_beta2"].get<double>();
  recipe.training.adam_epsilon = settings["adam_epsilon"].get<double>();
  recipe.training.weight_decay = settings["weight_decay"].get<double>();
  recipe.training.max_grad_norm = settings["max_grad_norm"].get<double>();
  recipe.training.lr_scheduler_type = Schedule::linear;
}

inline Recipe curve_recipe(const std::string& name) {
  Recipe recipe = reference_recipe(reference_folder(name));
  apply_settings(read_curve(name)["settings"], recipe);
  return recipe;
}

// The micro-batches of one step of a reference run.
inline std::vector<Batch> micro_batches_of(const Json& sequences, const Json& step) {
  std::vector<Batch> batches;
  for (const Json& indices : step["micro_batches"]) {
    batches.push_back(batch_of_sequences(sequences, indices.get<std::vector<size_t>>()));
  }
  return batches;
}

// The loss of each step; the runner's weights are trained.
inline std::vector<float> losses_of_curve(StepRunner& runner, const Json& curve) {
  std::vector<float> losses;
  auto total = static_cast<int64_t>(curve["steps"].size());
  for (const Json& step : curve["steps"]) {
    losses.push_back(static_cast<float>(
        runner.run_step(micro_batches_of(curve["sequences"], step), std::ssize(losses), total).loss));
  }
  return losses;
}

// The largest difference of a step's loss from Hugging Face's, relative to it.
inline double largest_difference(const std::vector<float>& losses, const Json& curve) {
  double largest = 0;
  for (size_t step = 0; step < losses.size(); ++step) {
    auto wanted = curve["steps"][step]["loss"].get<double>();
    auto loss = static_cast<double>(losses[step]);
    largest = std::isfinite(loss) ? std::max(largest, std::abs(loss - wanted) / wanted) : loss;
  }
  return largest;
}

inline double largest_difference_from_curve(StepRunner& runner, const std::string& name) {
  Json curve = read_curve(name);
  EXPECT_EQ(curve["steps"].size(), 50U);
  return largest_difference(losses_of_curve(runner, curve), curve);
}

}  // namespace snug
