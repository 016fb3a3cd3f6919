// Passes: add LoRA adapters beside the linear layers of a forward program, trained ones and frozen ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile/module_names.h"
#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

// PEFT's scaling: alpha / r, or alpha / sqrt(r) with rsLoRA.
float lora_scale(double alpha, int64_t rank, bool use_rslora);

// Which modules a section of settings adapts, and how. The section must outlive it.
class AdapterShapes {
 public:
  explicit AdapterShapes(const LoraSection& lora);

  bool adapts(const std::string& module) const;
  int64_t rank_of(const std::string& module) const;
  float scale_of(const std::string& module) const;

 private:
  const LoraSection& lora_;
  ModuleNames targets_;
  ModuleNames excluded_;
  ModuleValues<int64_t> ranks_;
  ModuleValues<double> alphas_;
};

// y += scale * B A dropout(x) after each adapted linear layer; dropout acts in training only. Layers that
// share an input share one dropout mask, and those of the same rank and scale one stacked A product. Only
// adapters, and the biases that the settings ask for, are trainable afterwards. A target that names no layer
// is an error that lists what there is.
Program add_adapters(Program forward, const LoraSection& lora, bool training);

// The adapters of earlier stages, as the one that they are saved as: of each layer the ranks added up, at
// scale 1; or one alone as it is. They are not trained.
Program add_frozen_adapters(Program forward, const std::vector<LoraSection>& stacked);

// The module (e.g. "model.layers.0.self_attn.q_proj") that a tensor belongs to.
std::string module_of(const TensorPart& part);

}  // namespace snug
