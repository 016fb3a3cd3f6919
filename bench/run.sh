#!/usr/bin/env bash
# Training on the CPU beside PyTorch: the same model, threads and batch, in turns, in one run.
# PYTHON names the interpreter that has torch and transformers; without one, snug is measured alone.
set -euo pipefail
cd "$(dirname "$0")/.."

threads=${THREADS:-$(nproc)}
steps=${STEPS:-8}
batch=${BATCH:-8}
python=${PYTHON:-python3}

with_torch=no
"$python" -c 'import torch, transformers' 2>/dev/null && with_torch=yes
for round in 1 2; do
  build/release/train_cpu "$threads" "$steps" "$batch" | tee "build/bench_snug.json"
  if [ $with_torch = yes ]; then
    "$python" bench/train_cpu_torch.py "$threads" "$steps" "$batch" 2>/dev/null | tee "build/bench_torch.json"
  fi
done
if [ $with_torch = no ]; then
  echo "PyTorch was not found: set PYTHON to an interpreter that has torch and transformers to compare."
  exit 0
fi
"$python" - <<'PY'
import json
snug, torch = (json.load(open(f"build/bench_{name}.json")) for name in ("snug", "torch"))
print(f"snug / PyTorch: {snug['tokens_per_second'] / torch['tokens_per_second']:.2f} x the tokens/s, "
      f"{snug['peak_resident_mib'] / torch['peak_resident_mib']:.2f} x the peak resident memory")
PY
