#!/usr/bin/env python3
"""What a plan expects of a step's speed beside what is measured, case by case.

    predicted.py [--train-gpu build/cuda/train_gpu] [case...]
    predicted.py --log FILE     of a call that was made before: lines "CASE name" and "SNUG {json}"
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

QWEN = "model=Qwen/Qwen2.5-7B-Instruct"
MISTRAL = "model=mistralai/Mistral-7B-Instruct-v0.3 batch=4 length=1536 rank=16 quantization=nf4_double"
T5 = "model=google/flan-t5-xl batch=8 rank=0"
QWEN3 = "model=Qwen/Qwen3-8B batch=2 length=2048 rank=16 accumulate=4"
FULL = "rank=0 accumulate=4 states=bf16 gradients=bf16"
CASES = {
    "A": f"{QWEN} batch=4 length=2048",
    "B": f"{QWEN} batch=4 length=2048 recompute=fit memory=23.6GiB chunk=512",
    "C": f"{QWEN} batch=1 length=512 recompute=fit memory=23.6GiB chunk=512",
    "C2": f"{QWEN} batch=1 length=2048 recompute=fit memory=23.6GiB chunk=512",
    "D": f"{MISTRAL} recompute=full",
    "D2": f"{MISTRAL} recompute=fit memory=28GiB",
    "E": f"{T5} length=512 target=256 recompute=fit memory=31.3GiB states=bf16",
    "E2": f"{T5} length=512 target=256",
    "1": f"{QWEN} batch=2 length=2048 dtype=fp16 dropout=0.05 accumulate=2 recompute=fit memory=23.6GiB",
    "2": f"{T5} length=256 target=512 accumulate=2 recompute=fit memory=31.3GiB states=bf16",
    "4": "model=deepseek-ai/deepseek-llm-7b-base batch=1 length=2048 rank=8 recompute=fit memory=22.3GiB",
    "short": f"{QWEN} batch=16 length=128 recompute=fit memory=23.6GiB",
    # The model's constants were never fitted on these.
    "A47": f"{QWEN} batch=4 length=2048 recompute=fit memory=46.9GiB",
    "AR": f"{QWEN} batch=4 length=2048 recompute=full",
    "Q3": QWEN3,
    "Q3R": f"{QWEN3} recompute=full",
    "F7": f"{QWEN} batch=4 length=1024 {FULL} chunk=2048",
    "F15": f"model=Qwen/Qwen2.5-1.5B-Instruct batch=32 length=1024 {FULL} chunk=4096",
    "F05": f"model=Qwen/Qwen2.5-0.5B-Instruct batch=32 length=1024 {FULL} chunk=8192",
    "32k": f"{QWEN} batch=1 length=32768 rank=16 recompute=full",
}


def measured(program, names):
    for name in names:
        output = subprocess.run([program, "steps=5", *CASES[name].split()], capture_output=True, text=True, check=True).stdout
        yield from ((name, json.loads(line[5:])) for line in output.splitlines() if line.startswith("SNUG "))


def logged(path):
    name = ""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith("CASE "):
            name = line[5:]
        elif line.startswith("SNUG "):
            yield name, json.loads(line[5:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--train-gpu", default="build/cuda/train_gpu")
    parser.add_argument("--log")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        sys.exit(f"predicted: no case {unknown[0]}; there are {', '.join(CASES)}")
    rows = logged(arguments.log) if arguments.log else measured(arguments.train_gpu, arguments.cases or CASES)
    print("| case | expected, tokens/s | measured | error |\n|---|---|---|---|")
    for name, row in rows:
        error = row["expected_tok_s"] / row["tok_s"] - 1
        print(f"| {name} | {row['expected_tok_s']:,.0f} | {row['tok_s']:,.0f} | {error:+.1%} |", flush=True)


if __name__ == "__main__":
    main()
