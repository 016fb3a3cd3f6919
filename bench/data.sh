#!/usr/bin/env bash
# Six million rows through the data layer: tokens made, an epoch read from the cache, and the memory both take.
#
#   bench/data.sh MODEL_FOLDER [WORK_FOLDER] [ROWS]
#
# MODEL_FOLDER holds config.json and a tokenizer. WORK_FOLDER (default build/bench_data) keeps rows and tokens:
# 11 GB for the default 6,000,000 rows.
set -euo pipefail
cd "$(dirname "$0")/.."

model=$(realpath "$1")
work=${2:-build/bench_data}
rows=${3:-6000000}
mkdir -p "$work"
work=$(realpath "$work")
if [ ! -s "$work/rows-$rows.jsonl" ]; then
  echo "making $rows rows (minutes)"
  python3 bench/make_rows.py "$rows" > "$work/rows.partial"
  mv "$work/rows.partial" "$work/rows-$rows.jsonl"
fi
cat > "$work/recipe.yml" <<YAML
model: {path: $model}
data: {train_file: rows-$rows.jsonl, max_length: 512}
training: {per_device_train_batch_size: 8, gradient_accumulation_steps: 4}
YAML
rm -rf "$work/.snug"
echo "tokenizing, then an epoch:"
build/release/data "$work/recipe.yml"
echo "the same from the cache:"
build/release/data "$work/recipe.yml"
