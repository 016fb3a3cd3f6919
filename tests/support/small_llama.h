// Llama shapes for tests, without a file.
#pragma once

#include "model/decoder.h"
#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

inline ModelSpec small_llama(int64_t layers = 3) {
  ModelSpec spec;
  spec.family = "llama";
  spec.architecture = "LlamaForCausalLM";
  spec.source = "small_llama";
  spec.vocabulary = 97;
  spec.width = 24;
  spec.decoder = repeat(usual_layer(4, 2, 6, 40), layers);
  spec.max_positions = 64;
  return spec;
}

// The same with a norm on each query and key head, as Qwen3 has it.
inline ModelSpec small_qwen3(int64_t layers = 3) {
  ModelSpec spec = small_llama();
  DecoderLayer layer = usual_layer(4, 2, 6, 40);
  layer.attention.head_norms = true;
  spec.decoder = repeat(layer, layers);
  return spec;
}

// The published shape of a 7B Llama (DeepSeek-LLM-7B).
inline ModelSpec deepseek_7b() {
  ModelSpec spec = small_llama();
  spec.vocabulary = 102400;
  spec.width = 4096;
  spec.decoder = repeat(usual_layer(32, 32, 128, 11008), 30);
  spec.max_positions = 4096;
  return spec;
}

inline Recipe small_recipe() {
  Recipe recipe;
  recipe.model.path = "small_llama";
  recipe.model.dtype = DType::f32;
  recipe.data.max_length = 20;
  recipe.data.eval_file = {"eval.jsonl"};
  recipe.training.per_device_train_batch_size = 2;
  recipe.training.per_device_eval_batch_size = 2;
  return recipe;
}

}  // namespace snug
