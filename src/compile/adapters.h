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
float lora_scale(const LoraSection& lora);

// y += scale * B A dropout(x) after each adapted linear layer. Layers that share an input share one stacked A
// product and one dropout mask. Only adapters are trainable afterwards. A target that names no layer is an
// error that lists what there is.
Program add_adapters(Program forward, const AdapterOptions& options);

// The modules (e.g. "model.layers.0.self_attn.q_proj") that `target_modules` selects, in program order.
std::vector<std::string> adapted_modules(const Program& forward, const std::vector<std::string>& targets);

}  // namespace snug
