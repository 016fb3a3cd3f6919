#!/usr/bin/env python3
"""Mirrors a run into Weights & Biases while it goes: the recipe as its config, each row of metrics.jsonl, samples as tables.

    tools/wandb_follow.py RUN [--project NAME] [--once]        (pip install wandb)

It reads files only, so the run neither waits for it nor ends with it. A run that is resumed writes its rows anew from a
checkpoint; what was sent already is passed over (a resumed run is the same run to the bit). Ends when the run is finished.
WANDB_MODE=offline keeps everything on this machine.
"""
import argparse
import hashlib
import json
import pathlib
import time

import wandb
import yaml


class Rows:
    """Whole rows of a file that grows and may begin anew."""

    def __init__(self, path):
        self.path = path
        self.offset = 0
        self.before = b""  # the bytes that ended at the offset

    def read(self):
        if not self.path.exists():
            return []
        with open(self.path, "rb") as file:
            file.seek(self.offset - len(self.before))
            if file.read(len(self.before)) != self.before:
                self.offset, self.before = 0, b""
                file.seek(0)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self.offset += len(text)
        self.before = (self.before + text)[-256:]
        return [json.loads(line) for line in text.splitlines()]


def kind_of(row):
    """Which of the rows of its step it is."""
    return f"sample {row['sample']}" if "sample" in row else "evaluation" if "eval_loss" in row else "step"


class Mirror:
    def __init__(self, run):
        self.run = run
        self.sent = set()
        # What an earlier follower sent, as far as W&B can tell.
        self.sent_until = run.summary.get("step", 0) if run.resumed else 0
        run.define_metric("step")
        run.define_metric("*", step_metric="step")

    def send(self, rows):
        samples = {}
        for row in rows:
            key = (row["step"], kind_of(row))
            if key in self.sent or row["step"] <= self.sent_until:
                continue
            self.sent.add(key)
            if "sample" in row:
                samples.setdefault(row["step"], []).append(row)
            else:
                self.run.log({name: value for name, value in row.items() if value is not None})
        for step, found in samples.items():
            columns = ["sample", "prompt", "text", "reference"]
            table = wandb.Table(columns=columns, data=[[row.get(name) for name in columns] for row in found])
            self.run.log({"step": step, "samples": table})


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}  # it is not there yet


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--project", default="snug")
    parser.add_argument("--once", action="store_true", help="send what is there, and end")
    parser.add_argument("--seconds", type=float, default=5, help="between two looks")
    arguments = parser.parse_args()
    folder = arguments.run.resolve()
    while not (folder / "recipe.yml").exists() and not arguments.once:
        time.sleep(arguments.seconds)  # the run has not begun
    recipe = yaml.safe_load((folder / "recipe.yml").read_text())
    run = wandb.init(project=arguments.project, name=folder.name, id=hashlib.sha256(str(folder).encode()).hexdigest()[:16],
                     resume="allow", config=recipe)
    mirror, rows = Mirror(run), Rows(folder / "metrics.jsonl")
    while True:
        is_finished = read_json(folder / "manifest.json").get("state") == "complete"  # before the rows, so that none is missed
        mirror.send(rows.read())
        if is_finished or arguments.once:
            break
        time.sleep(arguments.seconds)
    run.summary.update({f"snug/{name}": value for name, value in read_json(folder / "summary.json").items()
                        if isinstance(value, (int, float))})
    run.finish()


if __name__ == "__main__":
    main()
