// Written by tools/make_default_tables.py from the LoraConfig of PEFT 0.21.2. Do not edit.
#include "train/peft_defaults.h"

namespace snug {

std::string_view lora_config_defaults() {
  return R"({
"alora_invocation_tokens": null,
"alpha_pattern": {},
"arrow_config": null,
"bias": "none",
"corda_config": null,
"ensure_weight_tying": false,
"eva_config": null,
"exclude_modules": null,
"fan_in_fan_out": false,
"init_lora_weights": true,
"kasa_config": null,
"layer_replication": null,
"layers_pattern": null,
"layers_to_transform": null,
"loftq_config": {},
"lora_alpha": 8,
"lora_bias": false,
"lora_dropout": 0.0,
"lora_ga_config": null,
"megatron_config": null,
"megatron_core": "megatron.core",
"modules_to_save": null,
"monteclora_config": null,
"qalora_group_size": 16,
"r": 8,
"rank_pattern": {},
"target_modules": null,
"target_parameters": null,
"trainable_token_indices": null,
"use_bdlora": null,
"use_dora": false,
"use_qalora": false,
"use_rslora": false,
"velora_config": null
})";
}

}  // namespace snug
