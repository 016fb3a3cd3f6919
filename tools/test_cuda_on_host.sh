#!/usr/bin/env bash
# Runs the card's kernels on the host (tests/cuda_on_host): as Hopper has them, and as a card before it. Cases that would take
# the host minutes are left to a card.
#
#   tools/test_cuda_on_host.sh PROGRAM [JOBS]
set -euo pipefail
program=$1
jobs=${2:-$(nproc)}
too_large='*4101x2056*:*4300x2048*:*4096x72x1000:CudaCodes.SeveralSlices:*EmbeddingAndItsGradient*9001x24'

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# run NAME [VARIABLE=VALUE...]
run() {
  local name=$1 shards=() failed=0
  shift
  for ((i = 0; i < jobs; i++)); do
    env "$@" GTEST_TOTAL_SHARDS="$jobs" GTEST_SHARD_INDEX=$i OMP_NUM_THREADS=1 \
      "$program" --gtest_brief=1 --gtest_filter="-$too_large" >"$logs/$i" 2>&1 &
    shards+=($!)
  done
  for ((i = 0; i < jobs; i++)); do
    wait "${shards[i]}" || { cat "$logs/$i"; failed=1; }
  done
  if ((failed)); then
    echo "cuda: $name: failed" >&2
    exit 1
  fi
  awk -v name="$name" '/PASSED/ { passed += $4 } END { print "cuda: " name ": " passed " tests passed" }' "$logs"/*
}

run "on the host, as Hopper, copies late" SNUG_HOST_CARD=90 SNUG_HOST_COPIES=late
run "on the host, as Ampere, copies late, threads backward" \
  SNUG_HOST_CARD=80 SNUG_HOST_COPIES=late SNUG_HOST_THREADS=backward
