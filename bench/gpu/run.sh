#!/usr/bin/env bash
# snug and its peer on the same cases, one after the other in one call, and a table of both.
#
#   bench/gpu/run.sh [case...]      cases: A B C C2 D D2 E E2 E8 EA Q3 Q3R F7 F15 F05, curve_lora, curve_full; default: all
# The curve cases begin with the same weights, see the same tokens, and compare the losses.
#   TRAIN_GPU  the benchmark program (default build/cuda/train_gpu)
#   PYTHON     the python that has torch and transformers; "" leaves the peer out
#   RIVALS     1: Unsloth, Surogate and LLMQ too, where they are installed (rivals.py says what they need)
#   LOGS       where all that was printed is kept (default build/bench-logs)
#   PEER_PATH  a folder with peft, liger_kernel and bitsandbytes, where they are not installed
set -euo pipefail
cd "$(dirname "$0")/../.."

train_gpu=${TRAIN_GPU:-build/cuda/train_gpu}
python=${PYTHON-python3}
logs=${LOGS:-build/bench-logs}
log=$logs/run.log
mkdir -p "$logs"
: >"$log"
curve=$(mktemp -d)
trap 'rm -rf "$curve"' EXIT

snug() { "$train_gpu" "$@" | tee -a "$log"; }
peer() {
  if [[ -n $python ]]; then
    "$python" bench/gpu/peer.py "$@" 2>>"$logs/peer.err" | tee -a "$log" || echo "peer failed: $*; see $logs/peer.err" >&2
  fi
}
rivals() {
  if [[ ${RIVALS:-0} == 1 ]]; then
    python3 bench/gpu/rivals.py --logs "$logs" "$1" | tee -a "$log"
  fi
}
case_of() { echo "CASE $1" | tee -a "$log"; }

qwen=Qwen/Qwen2.5-7B-Instruct
mistral=mistralai/Mistral-7B-Instruct-v0.3
t5=google/flan-t5-xl
for name in "${@:-A B C C2 D D2 E E2 E8 EA Q3 Q3R F7 F15 F05 curve_lora curve_full}"; do
  for one in $name; do
    case_of "$one"
    case $one in
      A)
        snug model=$qwen batch=4 length=2048
        peer --model $qwen --batch 4 --length 2048
        peer --model $qwen --batch 4 --length 2048 --liger
        rivals A
        ;;
      B)
        snug model=$qwen batch=4 length=2048 recompute=fit memory=23.6GiB chunk=512
        peer --model $qwen --batch 4 --length 2048 --checkpointing --liger
        rivals B
        ;;
      C)
        snug model=$qwen batch=1 length=512 recompute=fit memory=23.6GiB chunk=512
        peer --model $qwen --batch 1 --length 512 --checkpointing
        ;;
      C2)
        snug model=$qwen batch=1 length=2048 recompute=fit memory=23.6GiB chunk=512
        peer --model $qwen --batch 1 --length 2048 --checkpointing --liger
        ;;
      D)
        snug model=$mistral batch=4 length=1536 rank=16 quantization=nf4_double recompute=full
        peer --model $mistral --batch 4 --length 1536 --rank 16 --nf4-double --checkpointing
        peer --model $mistral --batch 4 --length 1536 --rank 16 --nf4-double --checkpointing --liger
        rivals D
        ;;
      D2)
        snug model=$mistral batch=4 length=1536 rank=16 quantization=nf4_double recompute=fit memory=28GiB
        peer --model $mistral --batch 4 --length 1536 --rank 16 --nf4-double --liger
        rivals D2
        ;;
      E)
        snug model=$t5 batch=8 length=512 target=256 rank=0 recompute=fit memory=31.3GiB states=bf16 gradients=bf16
        peer --model $t5 --batch 8 --length 512 --target 256 --rank 0 --checkpointing
        ;;
      E2)
        snug model=$t5 batch=8 length=512 target=256 rank=0
        peer --model $t5 --batch 8 --length 512 --target 256 --rank 0
        ;;
      E8)
        snug model=$t5 batch=8 length=512 target=256 rank=0 states=8bit gradients=bf16
        peer --model $t5 --batch 8 --length 512 --target 256 --rank 0 --optim adamw8bit
        ;;
      EA)
        snug model=$t5 batch=8 length=512 target=256 rank=0 optim=adafactor
        peer --model $t5 --batch 8 --length 512 --target 256 --rank 0 --optim adafactor
        ;;
      Q3)
        snug model=Qwen/Qwen3-8B batch=2 length=2048 rank=16 accumulate=4
        rivals Q3
        ;;
      Q3R)
        snug model=Qwen/Qwen3-8B batch=2 length=2048 rank=16 accumulate=4 recompute=fit memory=18.21GiB chunk=512
        rivals Q3R
        ;;
      F7)
        snug model=$qwen batch=4 length=1024 rank=0 accumulate=8 states=bf16 gradients=bf16 chunk=2048
        rivals F7
        ;;
      F15)
        snug model=Qwen/Qwen2.5-1.5B-Instruct batch=32 length=1024 rank=0 accumulate=4 states=bf16 gradients=bf16 chunk=4096
        rivals F15
        ;;
      F05)
        snug model=Qwen/Qwen2.5-0.5B-Instruct batch=32 length=1024 rank=0 accumulate=4 states=bf16 gradients=bf16 chunk=8192
        rivals F05
        ;;
      curve_lora)
        snug model=$qwen batch=2 length=1024 steps=30 curve="$curve/lora"
        peer --model $qwen --batch 2 --length 1024 --steps 30 --curve "$curve/lora"
        ;;
      curve_full)
        snug model=$t5 batch=4 length=256 target=128 rank=0 dtype=fp32 steps=30 curve="$curve/full"
        peer --model $t5 --batch 4 --length 256 --target 128 --rank 0 --dtype fp32 --steps 30 --curve "$curve/full"
        ;;
      *)
        echo "run.sh: no case \"$one\"" >&2
        exit 2
        ;;
    esac
  done
done
python3 bench/gpu/table.py <"$log"
