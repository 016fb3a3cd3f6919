// Weights of linear layers as codes: what model.quantization does to a forward program.
#pragma once

#include "model/model_spec.h"
#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

// What the linear layers within the model's blocks are multiplied with becomes codes; embeddings, the output
// head and ModelSpec::uncoded_modules stay as they are.
Program code_weights(Program forward, Quantization quantization, const ModelSpec& spec);

}  // namespace snug
