#!/usr/bin/env bash
# Compiles the CUDA backend, the program, its benchmark and the card's tests for one architecture, which takes the toolkit but no
# card, and runs the tests. Where there is a card they must use it (SNUG_REQUIRE_CARD=1); where there is none they
# skip, it is checked that the switch would not let them, and the host stands in for a card (tests/cuda_on_host). The folder is
# that of 'make test', where all but the CUDA backend is compiled already; the next configuration of it turns CUDA off again.
#
#   tools/test_cuda.sh [JOBS]
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
build=build/release

if ! command -v nvcc >/dev/null && [[ ! -x /usr/local/cuda/bin/nvcc ]]; then
  echo "cuda: NOT CHECKED: there is no nvcc here, so the CUDA backend was not compiled"
  exit 0
fi
cmake --preset release --log-level=WARNING -DSNUG_WERROR="${SNUG_WERROR:-OFF}" -DSNUG_TESTS=ON -DSNUG_CUDA=ON \
  -DSNUG_CUDA_ARCHITECTURES=90a-real >/dev/null
cmake --build $build -j "$jobs" --target snug test_cuda test_cuda_training train_gpu

if compgen -G '/dev/nvidia[0-9]*' >/dev/null || [[ -e /dev/dxg ]]; then
  export SNUG_REQUIRE_CARD=1
  for program in test_cuda test_cuda_training; do
    $build/$program --gtest_brief=1
  done
  echo "cuda: compiled, and tested on the card"
  exit 0
fi
for program in test_cuda test_cuda_training; do
  $build/$program --gtest_brief=1 >/dev/null
  if SNUG_REQUIRE_CARD=1 $build/$program --gtest_brief=1 >/dev/null 2>&1; then
    echo "cuda: $program passes with SNUG_REQUIRE_CARD=1 although there is no card" >&2
    exit 1
  fi
done
cmake --build $build -j "$jobs" --target test_cuda_on_host
tools/test_cuda_on_host.sh $build/test_cuda_on_host "$jobs"
echo "cuda: compiled, and tested on the host; NOT TESTED ON A CARD: there is none here"
