#!/usr/bin/env python3
"""Writes the loss curves that snug's Adafactor is tested against: 50 steps of full fine-tuning with transformers.

    pip install -r tools/requirements-dev.txt
    python tools/make_adafactor_references.py

The models, sequences and steps are those of tools/make_curve_references.py; tests/goldens/references/<model>/adafactor.json
gets each step's loss and gradient norm with Adafactor as Trainer makes it, in float64. The same steps are taken once more
in float32; the script fails if the two curves part by more than the tests allow.
"""

import json

import torch
from transformers import get_linear_schedule_with_warmup
from transformers.optimization import Adafactor

import make_curve_references as curves
import make_references
import make_t5_references
from make_references import DEFAULT_OUTPUT, write_json

LEARNING_RATES = {"t5_few_buckets": 3e-5}  # of the others 1e-3; more would make T5's curve chaotic


def learning_rate(case):
    return LEARNING_RATES.get(case, 1e-3)


def train(case, model, curve):
    settings = curve["settings"]
    decayed = curves.decayed_names(model)
    groups = [
        {"params": [p for n, p in model.named_parameters() if n in decayed], "weight_decay": settings["weight_decay"]},
        {"params": [p for n, p in model.named_parameters() if n not in decayed], "weight_decay": 0.0},
    ]
    optimizer = Adafactor(groups, lr=learning_rate(case), scale_parameter=False, relative_step=False)
    schedule = get_linear_schedule_with_warmup(optimizer, settings["warmup_steps"], len(curve["steps"]))
    pool = curve["sequences"]
    rows = []
    for step in curve["steps"]:
        chosen = [pool[i] for batch in step["micro_batches"] for i in batch]
        targets = make_references.count_targets(chosen)
        optimizer.zero_grad()
        total = 0.0
        for batch in step["micro_batches"]:
            loss = curves.loss_sum(case, model, [pool[i] for i in batch]) / targets
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings["max_grad_norm"]).item()
        optimizer.step()
        schedule.step()
        rows.append({"loss": total, "grad_norm": norm})
    return rows


def main():
    for case in curves.MODELS:
        curve = json.loads((DEFAULT_OUTPUT / case / "curve.json").read_text())
        precision = make_t5_references if curves.is_t5(case) else make_references
        with precision.full_double_precision():
            rows = train(case, curves.load(case, torch.float64), curve)
        single = train(case, curves.load(case, torch.float32), curve)
        worst = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(rows, single))
        print(f"{case}: {rows[0]['loss']:.3f} to {rows[-1]['loss']:.3f}; in float32 up to {worst:.1e} apart")
        assert worst < curves.TOLERANCE, worst
        write_json(DEFAULT_OUTPUT / case / "adafactor.json", {"learning_rate": learning_rate(case), "steps": rows})


if __name__ == "__main__":
    main()
