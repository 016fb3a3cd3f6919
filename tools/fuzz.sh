#!/usr/bin/env bash
# Runs every fuzz harness of build/fuzz for the given number of seconds. Seeds come from
# fuzz/corpus/<name>/; what the run finds is kept in build/fuzz/corpus/<name>/ for the next one, and an
# input that crashes in build/fuzz/crashes/.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: tools/fuzz.sh SECONDS}

mkdir -p build/fuzz/crashes
ran=0
for harness in build/fuzz/fuzz_*; do
  [[ -f $harness && -x $harness ]] || continue
  name=$(basename "$harness")
  name=${name#fuzz_}
  corpora=("build/fuzz/corpus/$name")
  mkdir -p "${corpora[0]}"
  if [[ -d fuzz/corpus/$name ]]; then
    corpora+=("fuzz/corpus/$name")
  fi
  echo "fuzz: $name, $seconds s"
  log=build/fuzz/$name.log
  if ! "$harness" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/crashes/$name-" "${corpora[@]}" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "fuzz: $name failed; the input is in build/fuzz/crashes/, the log is $log" >&2
    exit 1
  fi
  grep -E 'number_of_executed_units' "$log" || true
  ran=$((ran + 1))
done
if ((ran == 0)); then
  echo "fuzz: there are no harnesses in build/fuzz" >&2
  exit 1
fi
echo "fuzz: $ran harnesses, no crash"
