// Weights of linear layers as codes: what model.quantization, model.compute, or a checkpoint that is
// quantised already, does to a forward program.
#pragma once

#include "model/model_spec.h"
#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

// What linear layers are stored as: the recipe's choice, or what the checkpoint says of itself; a dtype where
// neither says anything. Throws bad_input where they contradict each other.
Format weight_format(Quantization quantization, const ModelSpec& spec);
// The same with model.compute, which cannot go with either.
Format weight_format(const ModelSection& model, const ModelSpec& spec);

// What the linear layers within the model's blocks are multiplied with becomes codes of the chosen format;
// embeddings, the output head and ModelSpec::uncoded_modules stay as they are. Of a checkpoint that is
// quantised, those weights are codes that are so in the files; one that lies beside another which is not, or
// is otherwise, is plain.
Program code_weights(Program forward, const Format& chosen, const ModelSpec& spec);

}  // namespace snug
