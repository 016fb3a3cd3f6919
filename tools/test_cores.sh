#!/usr/bin/env bash
# The numeric tests with the matrix kernels of other processors. OpenBLAS chooses its kernels by the processor it
# runs on, and each adds up in an order of its own: what passes here may fail on another machine, unless
# tolerances come from the arithmetic (tests/support/rounding.h). Kernels that this processor cannot run are left
# out, aloud.
#
#   tools/test_cores.sh [BUILD_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() {  # core, threads
  echo "cores: $1, $2 threads"
  export OPENBLAS_CORETYPE=$1 SNUG_THREADS=$2
  # An unknown core is ignored in silence: the library is asked first.
  local arguments
  # What is written where depends on no kernel's sums.
  local not_numeric="-*Slow*:Watch*:*PlannedIsAllocated*:*WritesWhatItPlanned*:LossWatch.*:*Refuses*"
  for arguments in "test_backend --gtest_filter=OpenBlas.*" test_backend "test_exec --gtest_filter=$not_numeric" \
    "test_train --gtest_filter=$not_numeric"; do
    # shellcheck disable=SC2086  # the words of the command
    if ! "$build"/$arguments --gtest_brief=1 >"$log" 2>&1; then
      cat "$log" >&2
      echo "cores: $arguments failed with the kernels of $1 at $2 threads" >&2
      exit 1
    fi
  done
}

has() { grep -qw "$1" /proc/cpuinfo; }

run Prescott 2
run Sandybridge 2
for threads in 2 1 5; do
  run Haswell "$threads"
done
run Zen 2
if has avx512f && has avx512bw && has avx512dq && has avx512vl; then
  run SkylakeX 2
else
  echo "cores: SkylakeX was left out: this processor has no AVX-512"
fi
echo "cores: all passed"
