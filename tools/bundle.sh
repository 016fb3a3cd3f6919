#!/usr/bin/env bash
# Makes a folder that runs on other distributions: the program and the shared libraries it needs, but for the
# C library (which must be as new as the one here) and CUDA's own, which come with the toolkit or a driver image.
#
#   tools/bundle.sh BUILD_FOLDER OUT_FOLDER
set -euo pipefail

build=$1
out=$2
program=$build/snug
if [[ ! -x $program ]]; then
  echo "bundle: $program is not there; build it first" >&2
  exit 1
fi
rm -rf "$out"
mkdir -p "$out/lib"
cp "$program" "$out/snug"
strip "$out/snug"

# The C library belongs to the system's loader, CUDA's libraries to its toolkit.
stays='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|cublasLt|cublas|cudart|nvrtc))(-|\.)'
while read -r name path; do
  if [[ ! $name =~ $stays ]]; then
    cp -L "$path" "$out/lib/$name"
  fi
done < <(ldd "$program" | awk '$2 == "=>" && $3 ~ "^/" { print $1, $3 }')

# Nothing may come from outside the folder any more, except what stays.
foreign=$(ldd "$out/snug" | awk -v here="$(cd "$out" && pwd)/" \
  '$2 == "=>" && $3 ~ "^/" && index($3, here) != 1 { print $1 }' | grep -Ev "$stays" || true)
if [[ -n $foreign ]]; then
  echo "bundle: these libraries are still taken from this system: $foreign" >&2
  exit 1
fi
echo "bundle: $out, $(du -sh "$out" | cut -f1)"
