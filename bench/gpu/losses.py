#!/usr/bin/env python3
"""How far apart the losses of two runs are, step by step: fp8's from bf16's, say.

  losses.py BEFORE AFTER    each the metrics.jsonl of `snug train` with logging.logging_steps: 1, or what train_gpu
                            printed with curve=FOLDER
"""

import json
import sys


def losses_of(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines:
        if line.startswith("SNUG "):
            return json.loads(line.removeprefix("SNUG "))["losses"]
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    return [row["loss"] for row in rows if "loss" in row]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    before, after = (losses_of(path) for path in sys.argv[1:])
    if len(before) != len(after) or not before:
        sys.exit(f"losses.py: {len(before)} losses in {sys.argv[1]} and {len(after)} in {sys.argv[2]}: "
                 "take runs of as many steps")
    apart = [b / a - 1 for a, b in zip(before, after)]
    far = [step for step, share in enumerate(apart, start=1) if abs(share) > 0.005]
    most = max(range(len(apart)), key=lambda step: abs(apart[step]))
    print(f"{len(apart)} steps; mean of the losses {sum(before) / len(before):.4f}, {sum(after) / len(after):.4f}: "
          f"{100 * (sum(after) / sum(before) - 1):+.2f}%")
    print(f"mean of the steps' own differences {100 * sum(apart) / len(apart):+.2f}%, at most {100 * apart[most]:+.2f}% "
          f"(step {most + 1})")
    print(f"more than 0.5% apart: {len(far)} steps" + (f", the last is step {far[-1]}" if far else ""))
    print(f"first {before[0]:.5f}, {after[0]:.5f}; last {before[-1]:.5f}, {after[-1]:.5f}")


if __name__ == "__main__":
    main()
