#!/usr/bin/env python3
"""Reads lines "SNUG {json}" and "PEER {json}" and prints one table: a row a run, snug's ratio to the best peer of
the same case, the share of what the card allows, and memory as the driver and as the plan have it."""

import json
import sys


def main():
    rows = []
    for line in sys.stdin:
        kind, _, text = line.partition(" ")
        if kind == "CASE":
            case = text.strip()
        elif kind in ("SNUG", "PEER"):
            rows.append((case, kind, json.loads(text)))
    print("| case | stack | tokens/s | to best peer | share of limit | driver, GiB | planned, GiB |")
    print("|---|---|---|---|---|---|---|")
    for case, kind, row in rows:
        peers = [other["tok_s"] for name, which, other in rows if name == case and which == "PEER"]
        if kind == "PEER":
            name = name_of(row)
            print(f"| {case} | {name} | {row['tok_s']:,.0f} | | | {row['driver_GiB']:.1f} | |")
        else:
            ratio = f"{row['tok_s'] / max(peers):.2f}" if peers else ""
            print(f"| {case} | snug, recompute: {row['recompute']} | {row['tok_s']:,.0f} | {ratio} | "
                  f"{row['share_of_limit']:.0%} | {row['driver_GiB']:.2f} | {row['planned_GiB']:.2f} |")

    for case, kind, row in rows:
        for name, which, other in rows:
            if kind == "SNUG" and which == "PEER" and name == case and row.get("losses") and other.get("losses"):
                print(compare(case, row["losses"], other["losses"]))


def name_of(row):
    if "stack" in row:  # of rivals.py
        return f"{row['stack']}, {'recompute' if row['recompute'] else 'keep'} ({row['log']})"
    name = "transformers" + (" + PEFT" if row["rank"] else "") + (" + Liger" if row["liger"] else "")
    name += " + bitsandbytes" if row["nf4_double"] else ""
    return name + ("" if row["optim"] == "adamw" else f", {row['optim']}")


def compare(case, ours, theirs):
    """How far two loss curves on the same tokens, from the same weights, are apart."""
    worst = max(range(len(ours)), key=lambda step: abs(ours[step] - theirs[step]))
    return (f"case {case}, {len(ours)} steps on the same tokens: snug {ours[0]:.4f} to {ours[-1]:.4f}, "
            f"peer {theirs[0]:.4f} to {theirs[-1]:.4f}; largest difference {abs(ours[worst] - theirs[worst]):.4f} "
            f"at step {worst + 1}")


if __name__ == "__main__":
    main()
