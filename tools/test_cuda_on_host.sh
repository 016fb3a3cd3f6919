#!/usr/bin/env bash
# Runs the card's tests on the host (tests/cuda_on_host): all as on Hopper, and what is made by other kernels there as on a
# card before it. Tests that would take the host minutes are left to a card, or to ALL=1, which takes more than an hour.
#
#   [ALL=1] tools/test_cuda_on_host.sh PROGRAM [JOBS]
set -euo pipefail
program=$1
jobs=${2:-$(nproc)}
# What measures a card, asks cuBLASLt, or breaks a kernel.
left_out='CudaCalibration.*:CudaTokenSizes.*:*FaultsDeathTest.*'
if [[ -z ${ALL:-} ]]; then
  left_out+=':*4101x2056*:*4300x2048*:*4096x72x1000:CudaCodes.SeveralSlices:*EmbeddingAndItsGradient*9001x24'
  left_out+=':*CudaCurve.*:CudaQlora.*:CudaRecompute.*:CudaPlan.IsWhatFortyRandomRecipesUse'
fi

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# run NAME TESTS [VARIABLE=VALUE...]
run() {
  local name=$1 tests=$2 shards=() failed=0
  shift 2
  for ((i = 0; i < jobs; i++)); do
    env "$@" GTEST_TOTAL_SHARDS="$jobs" GTEST_SHARD_INDEX=$i OMP_NUM_THREADS=1 \
      "$program" --gtest_brief=1 --gtest_filter="$tests-$left_out" >"$logs/$i" 2>&1 &
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

run "on the host, as Hopper" '*' SNUG_HOST_CARD=90 SNUG_HOST_WORK=late SNUG_HOST_THREADS=1
run "on the host, as Ada" '*Attention*:*Lora*:*Model*:*Dropout*:*Fp8*:CudaTraining.*' SNUG_HOST_CARD=89 SNUG_HOST_WORK=late SNUG_HOST_THREADS=backward
