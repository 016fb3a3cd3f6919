// Pass: adds LoRA adapters beside the linear layers of a forward program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

struct AdapterOptions {
  LoraSection lora;
  bool training = false;  // dropout acts in training only
};

// PEFT's scaling: alpha / r, or alpha / sqrt(r) with rsLoRA.
float lora_scale(double alpha, int64_t rank, bool use_rslora);

// y += scale * B A dropout(x) after each adapted linear layer. Layers that share an input share one dropout
// mask, and those of the same rank and scale one stacked A product. Only adapters, and the biases that the
// options ask for, are trainable afterwards. A target that names no layer is an error that lists what there
// is.
Program add_adapters(Program forward, const AdapterOptions& options);

// The module (e.g. "model.layers.0.self_attn.q_proj") that a tensor belongs to.
std::string module_of(const TensorPart& part);

}  // namespace snug
