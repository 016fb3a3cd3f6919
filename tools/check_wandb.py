#!/usr/bin/env python3
"""Checks tools/wandb_follow.py without a network: a run writes, is killed and goes on from an earlier step while the follower
follows, and what W&B's files hold is compared with metrics.jsonl.

    tools/check_wandb.py        (pip install wandb)
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

from wandb.proto import wandb_internal_pb2

FOLLOW = pathlib.Path(__file__).with_name("wandb_follow.py")


def row(step):
    return {"step": step, "loss": 5 / step, "learning_rate": 1e-3, "time": time.time()}


def evaluation(step):
    return {"step": step, "eval_loss": 6 / step, "time": time.time()}


def sample(step):
    return {"sample": 1, "step": step, "prompt": "Log:", "text": f"Day {step}. </script>", "time": time.time()}


def write(path, rows, mode):
    with open(path, mode, encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in rows)


def records_of(path):
    """W&B's file is a log as LevelDB writes it: blocks of 32 KiB, behind a header of 7 bytes; a record is whole (1), or begins
    (2), goes on (3) and ends (4)."""
    data, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        _, length, kind = struct.unpack("<IHB", data[at:at + 7])
        parts = (parts if kind in (3, 4) else b"") + data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            yield record


def sent_rows(folder):
    """(step, name, value) of everything that was logged, in order."""
    found, tables = [], 0
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        for record in records_of(path):
            if record.WhichOneof("record_type") != "history":
                continue
            items = {one.key or ".".join(one.nested_key): json.loads(one.value_json) for one in record.history.item}
            tables += any(name.split(".")[0] == "samples" for name in items)
            found += [(items["step"], name, value) for name, value in items.items() if name in ("loss", "eval_loss")]
    return found, tables


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = folder / "run"
        run.mkdir()
        (run / "recipe.yml").write_text("training:\n  learning_rate: 0.001\n")
        (run / "manifest.json").write_text(json.dumps({"made_by": "snug", "state": "running"}))
        first = [one for step in range(1, 21) for one in ([row(step), evaluation(step), sample(step)] if step % 10 == 0 else [row(step)])]
        write(run / "metrics.jsonl", first, "w")
        follower = subprocess.Popen([sys.executable, FOLLOW, run, "--seconds", "0.2"], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE, text=True, env={**os.environ, "WANDB_MODE": "offline", "WANDB_DIR": name, "WANDB_SILENT": "true"})
        deadline = time.time() + 120
        while len(sent_rows(folder)[0]) < 22 and time.time() < deadline:  # until what is there is sent
            time.sleep(0.5)
        # Killed after step 20, resumed from step 15; a row is written in two halves.
        write(run / "metrics.jsonl", [one for one in first if one["step"] <= 15] + [row(step) for step in range(16, 30)], "w")
        time.sleep(1)
        text = json.dumps(row(30)) + "\n"
        for half in (text[:9], text[9:]):
            with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
                file.write(half)
            time.sleep(1)
        write(run / "metrics.jsonl", [evaluation(30), sample(30)], "a")
        (run / "manifest.json").write_text(json.dumps({"made_by": "snug", "state": "complete"}))
        errors = follower.communicate(timeout=120)[1]
        if follower.returncode != 0:
            sys.exit(f"the follower ended with {follower.returncode}: {errors}")
        found, tables = sent_rows(folder)
        expected = [(step, "loss", 5 / step) for step in range(1, 31)] + [(step, "eval_loss", 6 / step) for step in (10, 20, 30)]
        if sorted(found) != sorted(expected):
            sys.exit(f"W&B has {sorted(set(found) - set(expected))} too much and lacks {sorted(set(expected) - set(found))}; {len(found)} in all")
        if tables != 3:
            sys.exit(f"{tables} tables of samples, not 3")
        print(f"wandb: {len(found)} values and {tables} tables of samples as in metrics.jsonl, over a resume")


if __name__ == "__main__":
    main()
