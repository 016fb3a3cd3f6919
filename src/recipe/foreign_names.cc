// The names of other tools, one row each.
#include "recipe/foreign_names.h"

#include <array>

namespace snug {
namespace {

constexpr auto kForeignNames = std::to_array<ForeignName>({
    // model
    {"model_name_or_path", "write model.path"},
    {"model_name", "write model.path"},
    {"base_model", "write model.path"},
    {"base_model_name_or_path", "write model.path"},
    {"torch_dtype", "write model.dtype"},
    {"precision", "write model.dtype"},
    {"bf16", "write model.dtype: bf16"},
    {"fp16", "write model.dtype: fp16"},
    {"tf32", "write model.dtype: fp32"},
    {"load_in_4bit", "quantised base weights are not available; write model.dtype: bf16"},
    {"load_in_8bit", "quantised base weights are not available; write model.dtype: bf16"},
    {"quantization_bit", "quantised base weights are not available; write model.dtype: bf16"},
    // lora
    {"adapter", "the presence of the section lora switches LoRA on; write lora.r"},
    {"finetuning_type", "the presence of the section lora switches LoRA on; write lora.r"},
    {"rank", "write lora.r"},
    {"lora_r", "write lora.r"},
    {"lora_rank", "write lora.r"},
    {"alpha", "write lora.lora_alpha"},
    {"dropout", "write lora.lora_dropout"},
    {"lora_target", "write lora.target_modules"},
    {"lora_target_modules", "write lora.target_modules"},
    {"lora_target_linear", "write lora.target_modules: all-linear"},
    {"rslora", "write lora.use_rslora"},
    {"peft_use_rslora", "write lora.use_rslora"},
    // data
    {"dataset", "write data.train_file"},
    {"datasets", "write data.train_file"},
    {"dataset_path", "write data.train_file"},
    {"train_data", "write data.train_file"},
    {"validation_file", "write data.eval_file"},
    {"eval_dataset", "write data.eval_file"},
    {"val_size", "write data.eval_split"},
    {"val_set_size", "write data.eval_split"},
    {"test_size", "write data.eval_split"},
    {"validation_split_percentage", "write data.eval_split, as a share: 0.05 for 5"},
    {"interleave_probs", "give weights in data.train_file: [{path: a.jsonl, weight: 2}, b.jsonl]"},
    {"sample_packing", "write data.packing"},
    {"dataset_prepared_path", "write data.cache_dir"},
    {"tokenized_path", "write data.cache_dir"},
    {"cutoff_len", "write data.max_length"},
    {"max_seq_length", "write data.max_length"},
    {"max_source_length", "write data.max_length"},
    {"generation_max_length", "write data.max_target_length"},
    {"max_seq_len", "write data.max_length"},
    {"sequence_len", "write data.max_length"},
    {"model_max_length", "write data.max_length"},
    {"block_size", "write data.max_length"},
    // training
    {"epochs", "write training.num_train_epochs"},
    {"num_epochs", "write training.num_train_epochs"},
    {"steps", "write training.max_steps"},
    {"batch_size", "write training.per_device_train_batch_size"},
    {"train_batch_size", "write training.per_device_train_batch_size"},
    {"micro_batch_size", "write training.per_device_train_batch_size"},
    {"eval_batch_size", "write training.per_device_eval_batch_size"},
    {"gradient_accumulation", "write training.gradient_accumulation_steps"},
    {"grad_accum", "write training.gradient_accumulation_steps"},
    {"lr", "write training.learning_rate"},
    {"lr_scheduler", "write training.lr_scheduler_type"},
    {"scheduler", "write training.lr_scheduler_type"},
    {"warmup", "write training.warmup_steps"},
    {"beta1", "write training.adam_beta1"},
    {"beta2", "write training.adam_beta2"},
    {"eps", "write training.adam_epsilon"},
    {"optim", "the optimizer is AdamW; its settings are training.adam_beta1 and its neighbours"},
    {"optimizer", "the optimizer is AdamW; its settings are training.adam_beta1 and its neighbours"},
    {"grad_clip", "write training.max_grad_norm"},
    {"gradient_clipping", "write training.max_grad_norm"},
    {"random_seed", "write training.seed"},
    // memory
    {"gradient_checkpointing", "write memory.recompute: full"},
    {"activation_checkpointing", "write memory.recompute: full"},
    {"disable_gradient_checkpointing", "write memory.recompute: none"},
    {"max_memory", "write memory.limit"},
    {"max_memory_MB", "write memory.limit"},
    // logging and output
    {"log_interval", "write logging.logging_steps"},
    {"output", "write output_dir"},
    {"output_path", "write output_dir"},
    {"save_path", "write output_dir"},
});

}  // namespace

std::span<const ForeignName> foreign_names() {
  return kForeignNames;
}

}  // namespace snug
