// The names of other tools, those with one answer in one row. An answer says what to write here, that it is
// not needed and why, or that it is not there.
#include "recipe/foreign_names.h"

#include <algorithm>
#include <array>

namespace snug {
namespace {

constexpr auto kForeignNames = std::to_array<ForeignNames>({
    // model: from_pretrained, TRL, axolotl, LLaMA-Factory, Unsloth
    {"model_name_or_path model_name base_model base_model_name_or_path pretrained_model_name_or_path",
     "write model.path"},
    {"torch_dtype precision mixed_precision", "write model.dtype"},
    {"bf16 bf16_full_eval pure_bf16", "write model.dtype: bf16"},
    {"fp16 fp16_full_eval fp16_opt_level", "write model.dtype: fp16; the loss is scaled as needed"},
    {"fp8 fp8_format fp8_recipe", "write model.compute: fp8"},
    {"tf32", "not needed: --tf32 on the command line allows it for model.dtype: fp32"},
    {"load_in_16bit float16", "write model.dtype: bf16 or fp16"},
    {"load_in_4bit",
     "write model.quantization: nf4_double, which is what QLoRA means; Hugging Face's load_in_4bit alone is "
     "model.quantization: fp4"},
    {"load_in_8bit", "write model.quantization: int8; weights alone are in 8 bits, activations are not"},
    {"quantization_bit quantization_config quantization_method bnb_4bit_quant_type",
     "write model.quantization: nf4, nf4_double, fp4 or int8; a checkpoint that is quantised needs no key"},
    {"bnb_4bit_use_double_quant use_bnb_nested_quant double_quantization",
     "write model.quantization: nf4_double"},
    {"bnb_4bit_compute_dtype", "write model.dtype: all computation is in it"},
    {"bnb_4bit_quant_storage", "not needed: codes are stored as bytes"},
    {"llm_int8_threshold llm_int8_has_fp16_weight llm_int8_enable_fp32_cpu_offload",
     "not needed: model.quantization: int8 stores weights in 8 bits and computes in model.dtype, so that "
     "outliers need no path of their own"},
    {"llm_int8_skip_modules",
     "not there: model.quantization takes all linear layers but those that Hugging Face leaves out too"},
    {"device_map", "not needed: the plan places every byte on one device, which --device names"},
    {"max_memory max_memory_MB",
     "write memory.limit: it bounds all that the run takes, adapters, gradients and activations too"},
    {"gpu_memory_limit gpu_memory_utilization", "write memory.limit, as a size"},
    {"low_cpu_mem_usage offload_state_dict use_safetensors",
     "not needed: weights are streamed into their place through one small buffer"},
    {"offload_folder activation_offloading offload_embedding offload_optimizer offload_param "
     "optimizer_offload",
     "not there: offloading; memory.recompute saves activations, training.optimizer_states: 8bit quarters "
     "the "
     "states"},
    {"attn_implementation use_flash_attention_2 flash_attention flash_attn xformers_attention sdp_attention "
     "use_kernels",
     "not needed: attention never holds the scores, on every card"},
    {"use_liger_kernel liger_kernel_config enable_liger_kernel use_liger liger_rope liger_rms_norm "
     "liger_glu_activation liger_fused_linear_cross_entropy use_unsloth lora_mlp_kernel lora_qkv_kernel "
     "lora_o_kernel unsloth_tiled_mlp",
     "not needed: the kernels are fused as they are"},
    {"torch_compile torch_compile_backend torch_compile_mode dynamo_backend use_ipex jit_mode_eval",
     "not needed: there is nothing to compile"},
    {"trust_remote_code", "not needed: no code of a model folder is ever run"},
    {"revision model_revision token use_auth_token hub_token local_files_only variant",
     "not needed: nothing is downloaded; model.path is a folder, or an id in the local Hugging Face cache"},
    {"model_type tokenizer_type tokenizer_name tokenizer processing_class config_name use_fast_tokenizer "
     "fix_tokenizer",
     "not needed: config.json and the tokenizer of model.path tell"},
    {"model_init_kwargs", "not needed: model.path and model.dtype say it all"},
    {"use_cache", "not needed: training keeps no kv-cache"},
    {"rope_scaling", "not there: change rope_scaling in config.json"},
    {"full_finetuning use_peft peft adapter finetuning_type peft_config",
     "the presence of the section lora switches LoRA on, its absence means full fine-tuning; write lora.r"},
    {"random_state random_seed", "write training.seed"},
    {"train_from_scratch", "write model.from_scratch"},
    // lora: PEFT's LoraConfig and what others call it
    {"rank lora_r lora_rank", "write lora.r"},
    {"alpha", "write lora.lora_alpha"},
    {"dropout_rate attention_dropout attn_pdrop resid_pdrop embd_pdrop hidden_dropout",
     "write model.dropout"},
    {"lora_target lora_target_modules", "write lora.target_modules"},
    {"lora_target_linear", "write lora.target_modules: all-linear"},
    {"rslora peft_use_rslora", "write lora.use_rslora"},
    {"task_type lora_task_type peft_type peft_version inference_mode auto_mapping runtime_config "
     "fan_in_fan_out lora_fan_in_fan_out ensure_weight_tying",
     "not needed: the model tells"},
    {"megatron_config megatron_core", "not there: Megatron layers"},
    {"use_dora use_qalora qalora_group_size use_bdlora pissa loftq_config eva_config corda_config "
     "lora_ga_config kasa_config arrow_config velora_config monteclora_config alora_invocation_tokens "
     "init_lora_weights",
     "not there: LoRA as it was published, and rank-stabilised (lora.use_rslora)"},
    {"modules_to_save lora_modules_to_save additional_target trainable_token_indices",
     "not there: modules trained in full beside adapters; lora.target_modules takes linear layers"},
    {"target_parameters lora_target_parameters layer_replication layers_to_transform layers_pattern",
     "not there: lora.target_modules chooses layers by name"},
    {"lora_bias", "not there: biases of the adapters themselves; lora.bias trains the model's"},
    {"lora_model_dir adapter_name_or_path",
     "write lora.start to train an adapter on; snug generate --adapter uses one"},
    // data
    {"dataset datasets dataset_path dataset_name data_path train_data train_files", "write data.train_file"},
    {"dataset_dir", "write data.train_file with its folder"},
    {"validation_file eval_dataset validation_files test_datasets eval_files", "write data.eval_file"},
    {"val_size val_set_size test_size", "write data.eval_split"},
    {"validation_split_percentage", "write data.eval_split, as a share: 0.05 for 5"},
    {"interleave_probs mix_strategy",
     "give weights in data.train_file: [{path: a.jsonl, weight: 2}, b.jsonl]"},
    {"max_train_samples", "write data.max_samples"},
    {"sample_packing neat_packing packing_strategy multipack", "write data.packing"},
    {"eval_packing eval_sample_packing", "not needed: evaluation lays rows end to end without padding"},
    {"padding_free pad_to_multiple_of pad_to_max_length pad_to_sequence_len padding padding_side pad_token",
     "not needed: rows are laid end to end, nothing is padded"},
    {"dataset_prepared_path tokenized_path preprocessing_cache", "write data.cache_dir"},
    {"cutoff_len max_seq_length max_source_length max_seq_len sequence_len model_max_length block_size",
     "write data.max_length"},
    {"truncation_mode excess_length_strategy", "write data.truncation"},
    {"template chat_template_path", "write data.chat_template"},
    {"dataset_text_field text_column",
     "not needed: data.format finds a column named text; data.prompt_template takes any columns"},
    {"prompt_column response_column instruction_template response_template formatting_func",
     "write data.prompt_template and data.completion_column"},
    {"completion_only_loss assistant_only_loss train_on_inputs train_on_prompt mask_history roles_to_train "
     "train_on_eos",
     "write data.train_on"},
    {"dataset_kwargs dataset_num_proc preprocessing_num_workers overwrite_cache remove_unused_columns "
     "dataset_processes streaming",
     "not needed: files of any size are tokenized once, by all threads, into a cache"},
    {"dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor "
     "dataloader_in_order dataloader_multiprocessing_context",
     "not needed: the next step is prepared while this one runs"},
    {"dataloader_drop_last", "not there: an epoch's last step takes what is left"},
    {"shuffle_dataset shuffle_merged_datasets data_seed train_sampling_strategy sortish_sampler "
     "length_column_name",
     "training.seed shuffles; write training.group_by_length for rows of like length"},
    {"eos_token special_tokens tokens resize_token_embeddings_to_32x added_tokens",
     "not there: the tokenizer of model.path is taken as it is"},
    {"label_names", "not needed: data.train_on says what is learned"},
    {"ignore_data_skip", "not needed: a resumed run finds its place in the data at once"},
    // training
    {"epochs num_epochs", "write training.num_train_epochs"},
    {"steps", "write training.max_steps"},
    {"batch_size train_batch_size micro_batch_size train_micro_batch_size_per_gpu",
     "write training.per_device_train_batch_size"},
    {"eval_batch_size", "write training.per_device_eval_batch_size"},
    {"auto_find_batch_size",
     "not needed: what does not fit is known before the run; snug plan says what would"},
    {"gradient_accumulation grad_accum", "write training.gradient_accumulation_steps"},
    {"lr", "write training.learning_rate"},
    {"lr_scheduler scheduler", "write training.lr_scheduler_type"},
    {"embedding_learning_rate loraplus_lr_ratio lora_plus_lr_ratio",
     "not there: one training.learning_rate for all"},
    {"warmup", "write training.warmup_steps"},
    {"beta1", "write training.adam_beta1"},
    {"beta2", "write training.adam_beta2"},
    {"eps", "write training.adam_epsilon"},
    {"optimizer", "write training.optim"},
    {"optim_args optim_target_modules",
     "not needed: the settings of the optimizer are training.adam_beta1 and its neighbours"},
    {"grad_clip gradient_clipping", "write training.max_grad_norm"},
    {"neftune_noise_alpha label_smoothing_factor loss_type router_aux_loss_coef",
     "not there: the loss is the cross-entropy of the targets"},
    {"do_train do_eval do_predict stage",
     "not needed: snug train trains; evaluation runs where data.eval_file or data.eval_split is set"},
    {"evaluation_strategy eval_strategy evals_per_epoch eval_delay eval_on_start",
     "write training.eval_steps"},
    {"eval_accumulation_steps prediction_loss_only batch_eval_metrics include_for_metrics "
     "eval_do_concat_batches eval_use_gather_object include_inputs_for_metrics",
     "not needed: evaluation keeps no logits"},
    {"predict_with_generate generation_max_length do_causal_lm_eval eval_causal_lm_metrics",
     "write training.eval_max_new_tokens"},
    {"generation_num_beams generation_config", "not there: evaluations take the likeliest token each time"},
    {"full_determinism", "not needed: the same run on the same machine gives the same bits"},
    {"average_tokens_across_devices", "not needed: the loss is divided by the targets of the whole step"},
    {"restore_callback_states_from_checkpoint resume_from_checkpoint auto_resume_from_checkpoints",
     "give --resume or --resume=CHECKPOINT on the command line"},
    {"unfrozen_parameters freeze_layers", "not there: write lora for adapters, or train all weights"},
    // memory
    {"gradient_checkpointing activation_checkpointing use_gradient_checkpointing "
     "gradient_checkpointing_kwargs",
     "write memory.recompute: full, or selective, which is faster"},
    {"disable_gradient_checkpointing", "write memory.recompute: none"},
    {"torch_empty_cache_steps empty_cache skip_memory_metrics",
     "not needed: one arena is taken at the start, and nothing is freed or taken later"},
    {"cuda_alloc_conf PYTORCH_CUDA_ALLOC_CONF",
     "not needed: there is no allocator to tune; memory.limit is the one bound"},
    // devices: accelerate, DeepSpeed, FSDP
    {"use_cpu no_cuda use_mps_device", "write --device cpu on the command line"},
    {"gpu_ids",
     "write --device cuda:N on the command line, or cuda:auto for the card with the most free memory"},
    {"local_rank num_processes num_machines machine_rank main_process_ip main_process_port distributed_type "
     "compute_environment ddp_backend ddp_bucket_cap_mb ddp_broadcast_buffers ddp_find_unused_parameters "
     "ddp_static_graph ddp_timeout fsdp fsdp_config parallelism_config tp_plan tensor_parallel_size "
     "accelerator_config rdzv_backend downcast_bf16",
     "not there: training on more than one card"},
    {"deepspeed deepspeed_config zero_optimization zero_stage overlap_comm contiguous_gradients "
     "reduce_bucket_size allgather_bucket_size",
     "not there: DeepSpeed; on one card memory.recompute and training.optimizer_states save what ZeRO would"},
    // logging and output
    {"log_interval logging_strategy logging_first_step steps_per_print", "write logging.logging_steps"},
    {"log_level log_level_replica log_on_each_node logging_nan_inf_filter disable_tqdm debug "
     "wall_clock_breakdown plot_loss include_num_input_tokens_seen include_tokens_per_second project",
     "not needed: metrics.jsonl in output_dir has every logged step"},
    {"logging_dir", "not needed: TensorBoard's files are in output_dir (logging.report_to)"},
    {"run_name wandb_project wandb_entity wandb_name wandb_run_id use_wandb "
     "mlflow_tracking_uri comet_project_name trackio_space_id trackio_bucket_id trackio_static_space_id",
     "not there: trackers; metrics.jsonl in output_dir has every logged step"},
    {"use_tensorboard", "write logging.report_to"},
    {"output output_path save_path", "write output_dir"},
    {"overwrite_output_dir", "give --overwrite on the command line; output_dir is where the run writes"},
    {"saves_per_epoch checkpoint_every enable_jit_checkpoint",
     "write training.save_strategy, with training.save_steps or training.save_minutes"},
    {"save_only_model", "not there: a checkpoint holds what is needed to go on"},
    {"save_on_each_node save_safetensors", "not needed: checkpoints are safetensors, written once"},
    {"push_to_hub hub_model_id hub_strategy hub_private_repo hub_always_push hub_revision",
     "not there: uploads; output_dir is a folder that PEFT and transformers read"},
});

// Values of training.optim elsewhere.
constexpr auto kForeignOptimizers = std::to_array<ForeignNames>({
    {"adamw_torch adamw_torch_fused adamw_hf adamw_apex_fused adamw_torch_xla adamw_torch_npu_fused "
     "adamw_anyprecision adam",
     "write adamw, which is one fused pass here"},
    {"paged_adamw paged_adamw_32bit",
     "write adamw: nothing needs paging, as the plan counts every byte before the run"},
    {"adamw_bnb_8bit adamw_8bit",
     "write adamw, and training.optimizer_states: 8bit, which is bitsandbytes' 8-bit AdamW"},
    {"paged_adamw_8bit",
     "write adamw, and training.optimizer_states: 8bit, which is bitsandbytes' 8-bit AdamW; nothing needs "
     "paging, as the plan counts every byte before the run"},
    {"adamw_torch_4bit adamw_torch_8bit",
     "write adamw, and training.optimizer_states: 8bit, the smallest states that there are here"},
    {"sgd adagrad rmsprop rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit lion lion_8bit lion_32bit "
     "paged_lion "
     "paged_lion_8bit paged_lion_32bit ademamix ademamix_8bit paged_ademamix_32bit paged_ademamix_8bit lomo "
     "adalomo grokadamw schedule_free_adamw schedule_free_radam schedule_free_sgd galore_adamw "
     "galore_adamw_8bit galore_adamw_layerwise apollo_adamw apollo_adamw_layerwise stable_adamw muon shampoo "
     "soap came",
     "not there: AdamW and Adafactor are"},
});

// Whether `names` has `name` between its blanks.
bool has_name(std::string_view names, std::string_view name) {
  for (size_t begin = 0; begin < names.size();) {
    size_t end = std::min(names.find(' ', begin), names.size());
    if (names.substr(begin, end - begin) == name) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

std::string_view advice_in(std::span<const ForeignNames> rows, std::string_view name) {
  auto row = std::find_if(rows.begin(), rows.end(),
                          [&](const ForeignNames& foreign) { return has_name(foreign.names, name); });
  return row == rows.end() ? std::string_view() : row->advice;
}

}  // namespace

std::span<const ForeignNames> foreign_names() {
  return kForeignNames;
}

std::string_view foreign_advice(std::string_view name) {
  return advice_in(kForeignNames, name);
}

std::string_view foreign_optimizer_advice(std::string_view name) {
  return advice_in(kForeignOptimizers, name);
}

}  // namespace snug
