#!/usr/bin/env bash
# What a checkpoint every five minutes costs on a card: 7B with LoRA (r 128, fp32 states), and T5-XL in full with
# bf16 states (17 GB). Random weights; the trainer's own steps, copy and files. About three minutes.
#
#   bench/gpu/checkpoint_cost.sh
#   TRAIN_GPU  the benchmark program (default build/cuda/train_gpu)
#   FOLDER     where checkpoints are written, a new folder (default: one in the system's temporary folder)
set -euo pipefail
cd "$(dirname "$0")/../.."

train_gpu=${TRAIN_GPU:-build/cuda/train_gpu}
folder=${FOLDER:-$(mktemp -d)/checkpoints}
log=$(mktemp)
trap 'rm -rf "$log" "$folder"' EXIT

"$train_gpu" model=Qwen/Qwen2.5-7B-Instruct batch=4 length=2048 steps=4 checkpoint="$folder" | tee -a "$log"
"$train_gpu" model=google/flan-t5-xl batch=8 length=512 target=256 rank=0 states=bf16 recompute=selective steps=4 \
  checkpoint="$folder" | tee -a "$log"
python3 - "$log" <<'PYTHON'
import json
import sys

for line in open(sys.argv[1]):
    if not line.startswith("SNUG "):
        continue
    run = json.loads(line[5:])
    cost = run["checkpoint"]
    print(f"{run['model']}: {cost['checkpoint_bytes'] / 1e9:.1f} GB a checkpoint, {cost['step_s']:.3f} s a step"
          + (", training waits" if cost["training_waits"] else ""))
    for save in cost["saves"]:
        print(f"  steps held up {save['held_s']:.2f} s, on the disk after {save['written_s']:.1f} s, "
              f"{save['steps_meanwhile']} steps meanwhile, lost {save['lost_s']:.2f} s")
    print(f"  one every five minutes costs {cost['percent_of_5_minutes']:.2f}% of the time (at most 1% is wanted)")
PYTHON
