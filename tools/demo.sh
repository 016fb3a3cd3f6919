#!/usr/bin/env bash
# The main job on the embedded model: plan, fine-tune with LoRA, and show the text before and after.
set -euo pipefail
cd "$(dirname "$0")/.."

snug=build/release/snug
model=models/tiny-story
prompts=("Log: fox, river, lantern" "Log: owl, harbor, rope")

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
show() {
  printf '$ snug'
  printf ' %q' "$@"
  printf '\n'
}
run() {
  show "$@"
  "$snug" "$@"
}

say "1. The embedded model, trained by snug from scratch, tells stories"
run inspect "$model" --rank 16
for prompt in "Once upon a time" "${prompts[0]}"; do
  run generate "$model" --prompt "$prompt" --max-new-tokens 60
done

say "2. What training will see: conversations, by the model's own tokenizer and chat template"
run data recipes/ship_log.yml

say "3. What fine-tuning it will take, to the byte, before anything is loaded"
run plan recipes/ship_log.yml --memory 2GB

say "4. Fine-tuning with LoRA: three words in, a ship's log out. It is stopped on the way, and goes on as if it had not been"
rm -f runs/ship_log/metrics.jsonl
show train recipes/ship_log.yml --memory 2GB --overwrite
"$snug" train recipes/ship_log.yml --memory 2GB --overwrite &
training=$!
until [[ $(wc -l <runs/ship_log/metrics.jsonl 2>/dev/null || echo 0) -ge 12 ]] || ! kill -0 $training 2>/dev/null; do
  sleep 0.1
done
kill -TERM $training 2>/dev/null || true
status=0
wait $training || status=$?
if [[ $status -ne 0 && $status -ne 4 ]]; then  # 4: stopped, can be resumed
  exit $status
fi
run train recipes/ship_log.yml --memory 2GB --resume

say "5. The same prompts, with the adapter"
for prompt in "${prompts[@]}"; do
  run generate "$model" --adapter runs/ship_log --chat --prompt "$prompt" --max-new-tokens 80
done

say "The adapter in runs/ship_log is a PEFT folder: other tools load it as it is."
