#!/usr/bin/env bash
# Development check: what snug saves, other tools load. Trains an adapter and a whole model for a few steps, and
# compares snug's logits with those of transformers and PEFT on the saved folders (at most 1e-4 apart).
# PYTHON names an interpreter with tools/requirements-dev.txt installed.
set -euo pipefail
cd "$(dirname "$0")/.."
snug=build/release/snug
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

settings=(--json --set model.dtype=fp32 --set training.max_steps=20)
"$snug" train recipes/ship_log.yml "${settings[@]}" --set "output_dir=$work/adapter" >/dev/null
"$snug" generate models/tiny-story --adapter "$work/adapter" --dtype fp32 --prompt "Log: fox, river, lantern" \
  --max-new-tokens 1 --logits "$work/adapter.json" >/dev/null
"$python" tools/check_adapter.py models/tiny-story "$work/adapter" "$work/adapter.json"

"$snug" train recipes/ship_log.yml "${settings[@]}" --set lora=null --set "output_dir=$work/model" >/dev/null
"$snug" generate "$work/model" --dtype fp32 --prompt "Log: fox, river, lantern" \
  --max-new-tokens 1 --logits "$work/model.json" >/dev/null
"$python" tools/check_adapter.py "$work/model" - "$work/model.json"
