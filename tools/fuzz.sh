#!/usr/bin/env bash
# Runs every fuzz harness of build/debug for the given number of seconds. Seeds come from fuzz/corpus/<name>/; what
# the run finds is kept in FUZZ_CORPUS/<name>/ (default build/fuzz/corpus) for the next one, and an input that
# crashes in build/fuzz/crashes/.
#
#   tools/fuzz.sh SECONDS [--long] [NAME...]
#
# --long goes on with the next harness after a crash, and afterwards keeps only the smallest inputs that reach as
# much. NAMEs choose harnesses.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: tools/fuzz.sh SECONDS [--long] [NAME...]}
shift
long=no
if [[ ${1:-} == --long ]]; then
  long=yes
  shift
fi
names=("$@")
kept=${FUZZ_CORPUS:-build/fuzz/corpus}

# The inputs of `kept` without those that reach nothing more than others do.
minimise() {  # harness, name
  local smaller=$kept/$2.smaller
  rm -rf "$smaller"
  mkdir -p "$smaller"
  "$1" -merge=1 -timeout=10 -rss_limit_mb=2048 "$smaller" "$kept/$2" >"build/fuzz/$2.merge.log" 2>&1
  rm -rf "${kept:?}/$2"
  mv "$smaller" "$kept/$2"
}

# What libFuzzer says at the end, in one line.
figures() {  # log
  local inputs reached
  inputs=$(awk '/number_of_executed_units/ { print $2 }' "$1")
  reached=$(grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$1" | tail -n 1 || true)
  echo "${inputs:-?} inputs, ${reached:-nothing reached}"
}

mkdir -p build/fuzz/crashes
ran=0
failed=()
for harness in build/debug/fuzz_*; do
  [[ -f $harness && -x $harness ]] || continue
  name=$(basename "$harness")
  name=${name#fuzz_}
  if ((${#names[@]})) && [[ " ${names[*]} " != *" $name "* ]]; then
    continue
  fi
  corpora=("$kept/$name")
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
    [[ $long == yes ]] || exit 1
    failed+=("$name")
  fi
  echo "  $(figures "$log")"
  if [[ $long == yes ]]; then
    minimise "$harness" "$name"
    echo "  $(find "$kept/$name" -type f | wc -l) of them kept, $(du -sk "$kept/$name" | cut -f1) KiB"
  fi
  ran=$((ran + 1))
done
if ((ran == 0)); then
  echo "fuzz: there are no such harnesses in build/debug" >&2
  exit 1
fi
if ((${#failed[@]})); then
  echo "fuzz: $ran harnesses, failed: ${failed[*]}" >&2
  exit 1
fi
echo "fuzz: $ran harnesses, no crash"
