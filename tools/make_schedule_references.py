#!/usr/bin/env python3
"""Writes tests/goldens/schedules.json: learning rates that transformers' get_scheduler gives, step by step.

    python3 tools/make_schedule_references.py
"""
import json
import pathlib
import warnings

import torch
import transformers

LEARNING_RATE = 3e-4
# lr_scheduler_type, total steps, warm-up steps, lr_scheduler_kwargs
CASES = [
    ("linear", 20, 4, {}),
    ("linear", 7, 0, {}),
    ("linear", 5, 5, {}),
    ("cosine", 20, 3, {}),
    ("cosine", 20, 0, {"num_cycles": 1.5}),
    ("cosine_with_restarts", 20, 3, {}),
    ("cosine_with_restarts", 21, 2, {"num_cycles": 3}),
    ("cosine_with_min_lr", 20, 3, {"min_lr": 2e-5}),
    ("cosine_with_min_lr", 20, 0, {"min_lr_rate": 0.1, "num_cycles": 1.0}),
    ("polynomial", 20, 3, {}),
    ("polynomial", 20, 0, {"power": 2.0, "lr_end": 1e-5}),
    ("inverse_sqrt", 20, 4, {}),
    ("inverse_sqrt", 20, 0, {}),
    ("inverse_sqrt", 20, 4, {"timescale": 9}),
    ("constant", 8, 3, {}),
    ("constant_with_warmup", 8, 3, {}),
]


def rates(kind, steps, warmup, kwargs):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=LEARNING_RATE)
    scheduler = transformers.get_scheduler(kind, optimizer, warmup, steps, scheduler_specific_kwargs=kwargs)
    result = []
    for _ in range(steps):
        result.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return result


def main():
    warnings.simplefilter("ignore")
    cases = [{"lr_scheduler_type": kind, "total_steps": steps, "warmup_steps": warmup,
              "lr_scheduler_kwargs": kwargs, "learning_rates": rates(kind, steps, warmup, kwargs)}
             for kind, steps, warmup, kwargs in CASES]
    head = {"transformers": transformers.__version__, "learning_rate": LEARNING_RATE}
    rows = ",\n".join("    " + json.dumps(case) for case in cases)
    target = pathlib.Path(__file__).resolve().parent.parent / "tests/goldens/schedules.json"
    target.write_text(json.dumps(head)[:-1] + ', "cases": [\n' + rows + "\n]}\n")


if __name__ == "__main__":
    main()
