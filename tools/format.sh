#!/usr/bin/env bash
# Formats the C++ files in place, or checks them (--check). The layout of one clang-format version is the
# house's: 14, which Debian 12 and Ubuntu 24.04 both package. Others differ in small things, so with
# another version the check is skipped with a warning, and formatting is refused.
set -euo pipefail
cd "$(dirname "$0")/.."

formatter=""
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
    formatter=$candidate
    break
  fi
done

if [[ -z $formatter ]]; then
  if [[ ${1:-} == --check ]]; then
    echo "format: skipped, there is no clang-format 14 here (other versions format differently)"
    exit 0
  fi
  echo "format: needs clang-format 14 (package clang-format-14), other versions format differently" >&2
  exit 1
fi

mapfile -t files < <(find src tests fuzz bench -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' | sort)
if ((${#files[@]} == 0)); then
  exit 0
fi
if [[ ${1:-} == --check ]]; then
  if ! "$formatter" --dry-run --Werror "${files[@]}"; then
    echo "format: 'make format' repairs the lines above" >&2
    exit 1
  fi
  echo "format: ${#files[@]} files, all formatted"
else
  "$formatter" -i "${files[@]}"
  echo "format: ${#files[@]} files"
fi
