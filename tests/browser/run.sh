#!/bin/sh
# The tests of web pages: run.sh SNUG. Ends with 77, which ctest shows as skipped, where there is no browser.
cd "$(dirname "$0")" || exit 1
if ! command -v python3 >/dev/null; then
  echo "SKIPPED: web pages are tested with python3, which is not here"
  exit 77
fi
status=0
for test in *_test.py; do
  python3 "$test" "$1" || status=$?
done
exit $status
