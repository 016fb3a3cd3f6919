#!/usr/bin/env bash
# Development check: what snug saves, other tools load. Trains an adapter and a whole model for a few steps, of a
# decoder-only model, also in stages, of one with an encoder, and of one with biases and all settings of LoRA, and compares snug's logits with those of transformers and PEFT on
# the saved folders (at most 1e-4 apart). PYTHON names an interpreter with tools/requirements-dev.txt installed.
set -euo pipefail
cd "$(dirname "$0")/.."
snug=build/release/snug
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check_model MODEL_DIR SETTING...: both kinds of fine-tuning of this model on the ship's log.
check_model() {
  local model=$1
  shift
  local settings=(--json --set "model.path=$model" --set model.dtype=fp32 "$@")
  local prompt=(--dtype fp32 --prompt "Log: fox, river, lantern" --max-new-tokens 5)

  "$snug" train recipes/ship_log.yml "${settings[@]}" --set "output_dir=$work/adapter" --overwrite >/dev/null
  "$snug" generate "$model" --adapter "$work/adapter" "${prompt[@]}" --logits "$work/adapter.json" >/dev/null
  "$python" tools/check_adapter.py "$model" "$work/adapter" "$work/adapter.json"

  "$snug" train recipes/ship_log.yml "${settings[@]}" --set lora=null --set "output_dir=$work/model" --overwrite >/dev/null
  "$snug" generate "$work/model" "${prompt[@]}" --logits "$work/model.json" >/dev/null
  "$python" tools/check_adapter.py "$work/model" - "$work/model.json"
}

# check_stages SETTING...: three adapters on top of each other, saved as one; and each checkpoint of the last stage.
check_stages() {
  local model="$PWD/models/tiny-story"
  local prompt=(--dtype fp32 --prompt "Log: fox, river, lantern" --max-new-tokens 5)
  "$snug" train recipes/three_stages.yml --json --set model.dtype=fp32 --set training.max_steps=20 "$@" \
    --set "output_dir=$work/stages" --overwrite >/dev/null
  for adapter in "$work/stages" "$work/stages/bill" "$work"/stages/letter/checkpoint-*; do
    "$snug" generate "$model" --adapter "$adapter" "${prompt[@]}" --logits "$work/stages.json" >/dev/null
    "$python" tools/check_adapter.py "$model" "$adapter" "$work/stages.json"
  done
}

check_stages
check_stages --set 'stages.bill.lora.target_modules=[q_proj, down_proj]' --set stages.bill.lora.lora_alpha=7 \
  --set stages.letter.lora.use_rslora=true --set 'stages.letter.lora.rank_pattern={v_proj: 3}'
check_model "$PWD/models/tiny-story" --set training.max_steps=20
mkdir "$work/biased"
echo '{"model_type": "qwen2", "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 256}' >"$work/biased/config.json"
"$snug" synth "$work/biased" "$work/qwen" --dtype fp32 >/dev/null
check_model "$work/qwen" --set training.max_steps=5 --set data.max_length=128 --set training.learning_rate=1e-2 \
  --set lora.bias=all --set 'lora.exclude_modules=[layers.1.mlp.up_proj, k_proj]' \
  --set 'lora.rank_pattern={down_proj: 3, "layers\\.[01]\\.self_attn\\.q_proj": 5}' --set 'lora.alpha_pattern={gate_proj: 64}'
"$snug" synth google/flan-t5-small "$work/t5" --dtype fp32 >/dev/null
# A model with an encoder learns pairs, not conversations.
"$python" -c 'import json, sys
for line in sys.stdin:
    asked, answered = json.loads(line)["messages"]
    print(json.dumps({"prompt": asked["content"], "completion": answered["content"]}))' \
  <recipes/data/ship_log_train.jsonl >"$work/pairs.jsonl"
check_model "$work/t5" --set training.max_steps=2 --set training.per_device_train_batch_size=2 \
  --set "data.train_file=$work/pairs.jsonl" --set data.eval_file=null
