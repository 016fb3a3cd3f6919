// All programs of a run: one a phase, sharing their persistent buffers by name.
#pragma once

#include <vector>

#include "compile/batch_limits.h"
#include "model/model_spec.h"
#include "program/names.h"
#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

// load, train (one micro-batch, forward and backward), update, evaluate (if there are limits for it), save.
std::vector<Program> compile_training(const Recipe& recipe, const ModelSpec& spec, const RunLimits& limits);

// train alone, of a recipe that compile_training does not refuse, in two steps: what is the same for every
// memory.recompute, and what that key makes of it. To choose between many: what is chosen is compiled by
// compile_training, which verifies it.
Program build_micro_batch(const Recipe& recipe, const ModelSpec& spec, const BatchLimits& limits);
Program finish_micro_batch(Program built, const Recipe& recipe, const ModelSpec& spec);

// evaluate alone: its persistent buffers are among those of train.
Program compile_evaluation(const Recipe& recipe, const ModelSpec& spec, const BatchLimits& limits);

// encode (of a model with an encoder) and generate, for answers to the rows of an evaluation, the longest of
// which are `longest`. What persists is what train has, but for what encode hands to generate.
std::vector<Program> compile_answers(const Recipe& recipe, const ModelSpec& spec, const BatchLimits& longest);

struct GenerationOptions {
  DType dtype = DType::f32;
  Quantization quantization = Quantization::none;
  int64_t max_source_tokens = 0;  // what an encoder reads
  int64_t max_prompt_tokens = 0;  // what the decoder begins with
  int64_t max_total_tokens = 0;   // that and the answer
  const LoraSection* lora = nullptr;
};
// load, generate; between them encode, for a model with an encoder.
std::vector<Program> compile_generation(const ModelSpec& spec, const GenerationOptions& options);

// Storage and compute dtype of a run: the recipe's, else the checkpoint's, else fp32.
DType run_dtype(const Recipe& recipe, const ModelSpec& spec);

// What the model drops while it is trained: the recipe's rate, else config.json's.
DropoutRates run_dropout(const Recipe& recipe, const ModelSpec& spec);

}  // namespace snug
