// All programs of a run: one a phase, sharing their persistent buffers by name.
#pragma once

#include <vector>

#include "model/model_spec.h"
#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

// Names of the phases, which are the names of their programs.
inline constexpr const char* kLoadPhase = "load";
inline constexpr const char* kTrainPhase = "train";
inline constexpr const char* kUpdatePhase = "update";
inline constexpr const char* kEvaluatePhase = "evaluate";
inline constexpr const char* kSavePhase = "save";
inline constexpr const char* kGeneratePhase = "generate";

// load, train (one micro-batch, forward and backward), update, evaluate, save.
std::vector<Program> compile_training(const Recipe& recipe, const ModelSpec& spec);

struct GenerationOptions {
  DType dtype = DType::f32;
  int64_t max_prompt_tokens = 0;
  int64_t max_total_tokens = 0;  // prompt and answer
  const LoraSection* lora = nullptr;
};
// load, generate.
std::vector<Program> compile_generation(const ModelSpec& spec, const GenerationOptions& options);

// Storage and compute dtype of a run: the recipe's, else the checkpoint's, else fp32.
DType run_dtype(const Recipe& recipe, const ModelSpec& spec);

}  // namespace snug
