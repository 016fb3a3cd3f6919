#!/usr/bin/env bash
# Installs the distribution packages that are missing for the groups named, and says why each is needed.
# Silent and fast when nothing is missing. Debian 12 and Ubuntu 24.04; elsewhere it only checks.
#
#   tools/setup.sh [build] [test] [lint] [fuzz] [browser]
set -euo pipefail

# What tells that a package is not needed: a command, a pkg-config module, or a file of clang's own folder.
# Probing for the thing and not for the package lets self-built tools and other OpenBLAS flavours count.
has_command() { command -v "$1" >/dev/null 2>&1; }
has_module() { pkg-config --exists "$1" 2>/dev/null; }
has_clang_file() { has_command clang && [[ -e $(clang -print-resource-dir)/$1 ]]; }

# The runtime library's package carries clang's version, which differs by distribution. clang-format is
# asked for where its version 14 is a package: the format check takes no other (tools/format.sh).
system=$([[ ! -r /etc/os-release ]] || (. /etc/os-release && echo "$ID-${VERSION_ID:-}"))
case $system in
  debian-12) clang_runtime=libclang-rt-14-dev clang_format=clang-format-14 ;;
  ubuntu-24.04) clang_runtime=libclang-rt-18-dev clang_format=clang-format-14 ;;
  *) clang_runtime=libclang-rt-dev clang_format=clang-format ;;
esac

missing=()
need() {  # package, why, probe...
  local package=$1 why=$2
  shift 2
  if ! "$@"; then
    missing+=("$package")
    reasons+="  $(printf '%-24s %s' "$package" "$why")"$'\n'
  fi
}
reasons=""

need_build() {
  need make "runs the Makefile" has_command make
  need g++ "the C++20 compiler" has_command g++
  need cmake "configures the build" has_command cmake
  need ninja-build "runs the build" has_command ninja
  need pkg-config "finds libraries" has_command pkg-config
  need ccache "keeps rebuilds short" has_command ccache
  need libopenblas-openmp-dev "matrix products on the CPU" has_module openblas
  need libyaml-cpp-dev "reads recipes" has_module yaml-cpp
  need nlohmann-json3-dev "reads and writes JSON" has_module nlohmann_json
  need libcli11-dev "the command line" has_module CLI11
  need libfmt-dev "formats text" has_module fmt
  need libonig-dev "splits text for the tokenizers" has_module oniguruma
  need libutf8proc-dev "normalises text for the tokenizers" has_module libutf8proc
  need zlib1g-dev "unpacks compressed files" has_module zlib
  need libzstd-dev "unpacks compressed data files" has_module libzstd
  need libsimdjson-dev "reads rows of JSON data" has_module simdjson
  need libcpp-httplib-dev "serves the page of snug watch" has_module cpp-httplib
  need libcurl4-openssl-dev "tells webhooks of a run" has_module libcurl
  need libxxhash-dev "tells whether data has changed" has_module libxxhash
}

need_test() {
  need libgtest-dev "the test framework" has_module gtest
}

need_lint() {
  need python3 "runs the layer and size checks" has_command python3
  need clang "libFuzzer, and the headers of clang-tidy" has_command clang
  need clang-tidy "finds mistakes in the code" has_command clang-tidy
  need "$clang_format" "formats the code" has_command "$clang_format"
  need libomp-dev "OpenMP headers for clang" has_clang_file include/omp.h
}

need_fuzz() {
  need clang "libFuzzer, and the headers of clang-tidy" has_command clang
  need "$clang_runtime" "libFuzzer and the sanitizers for clang" \
    has_clang_file "lib/linux/libclang_rt.fuzzer-$(uname -m).a"
  need libomp-dev "OpenMP headers for clang" has_clang_file include/omp.h
}

need_browser() {
  if [[ $system == ubuntu-* ]]; then
    echo "setup: Ubuntu has Chromium as a snap only; without one the tests of web pages are skipped"
    return
  fi
  need python3 "drives the browser" has_command python3
  need chromium "shows the web pages to their tests" has_command chromium
}

for group in "$@"; do
  case $group in
    build | test | lint | fuzz | browser) "need_$group" ;;
    *)
      echo "setup: no package group '$group'; there are: build test lint fuzz browser" >&2
      exit 2
      ;;
  esac
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
reasons=$(printf '%s' "$reasons" | sort -u)
install="apt-get install -y --no-install-recommends ${missing[*]}"
if ! has_command apt-get; then
  printf 'setup: these packages (by their Debian names) are missing, and there is no apt-get here:\n%s\n' "$reasons" >&2
  echo "setup: install them with this system's package manager, then run make again." >&2
  exit 1
fi
as_root=()
if ((EUID != 0)); then
  as_root=(sudo)
  # Without a terminal sudo cannot ask for a password; asking it first keeps make from hanging.
  if ! has_command sudo || { [[ ! -t 0 ]] && ! sudo -n true 2>/dev/null; }; then
    printf 'setup: these packages are missing:\n%s\n' "$reasons" >&2
    printf 'setup: installing them needs root. As root, run:\n\n  apt-get update && %s\n\nthen run make again.\n' \
      "$install" >&2
    exit 1
  fi
fi

printf 'setup: installing what is missing, from the distribution:\n%s\n' "$reasons"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for step in "apt-get update" "$install"; do
  # shellcheck disable=SC2086  # the words of the command
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $step -o Acquire::Retries=3 >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: '$step' failed (above are its last lines). Repair that, then run make again." >&2
    exit 1
  fi
done
echo "setup: done."
