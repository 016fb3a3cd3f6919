#!/usr/bin/env bash
# Kills a run with SIGKILL again and again, goes on with --resume, and compares it with one that never stopped: every
# field of metrics.jsonl but the speed, and the weights, must be equal. For a card; the CPU has tests of it.
#
#   bench/kill_and_resume.sh [SNUG] [DEVICE] [KILLS] [--set key=value ...]
set -euo pipefail
cd "$(dirname "$0")/.."
snug=${1:-build/cuda/snug}
device=${2:-cuda}
kills=${3:-5}
shift $(($# < 3 ? $# : 3))

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
train() {  # output folder, more arguments; takes the place of the shell that calls it
  local out=$1
  shift
  exec "$snug" train recipes/ship_log.yml --device "$device" --json --set "output_dir=$out" \
    --set "data.cache_dir=$work/cache" --set logging.logging_steps=1 --set training.max_steps=60 --set training.eval_steps=10 \
    --set training.save_steps=4 "$@"
}

begun=$(date +%s%N)
(train "$work/whole" "$@" >/dev/null)
whole_ms=$((($(date +%s%N) - begun) / 1000000))
killed=0
while ((killed < kills)); do
  train "$work/killed" "$@" --resume >/dev/null 2>&1 &
  child=$!
  # Between a third and all of the time that the whole run takes.
  sleep "$(awk -v ms=$whole_ms -v random=$RANDOM 'BEGIN { printf "%.3f", ms / 1000 * (1 / 3 + random / 32768 * 2 / 3) }')"
  if kill -9 $child 2>/dev/null; then
    killed=$((killed + 1))
  else
    rm -rf "$work/killed"  # it was faster: begin again
  fi
  wait $child 2>/dev/null || true
done
(train "$work/killed" "$@" --resume >/dev/null)

without_speed() { sed -E 's/,?"(tokens_per_second|time|card_[a-z_]+)":[^,}]*//g' "$1/metrics.jsonl"; }
cmp <(without_speed "$work/whole") <(without_speed "$work/killed")
for name in adapter_model.safetensors model.safetensors; do
  if [[ -e $work/whole/$name ]]; then
    cmp "$work/whole/$name" "$work/killed/$name"
  fi
done
echo "kill_and_resume: $kills kills, $(wc -l <"$work/whole/metrics.jsonl") rows and the weights are equal ($device $*)"
