#!/usr/bin/env python3
"""Writes the loss curves that snug's training is tested against: 50 steps of full fine-tuning with transformers.

    pip install -r tools/requirements-dev.txt
    python tools/make_curve_references.py

For each tiny model below, tests/goldens/references/<model>/curve.json gets the sequences, the settings and what each
step saw before its update: loss and gradient norm, in float64. The same steps are taken once more in float32; the
script fails if the two curves part by more than the tests allow. tests/goldens/references/not_decayed.json lists, for
every tiny model, the parameters that Trainer leaves out of weight decay.
"""

import random

import torch
from transformers import AutoModelForSeq2SeqLM, Trainer, get_linear_schedule_with_warmup

import make_references
import make_t5_references
from make_references import DEFAULT_OUTPUT, write_json

MODELS = ("gqa_untied", "qwen2_tied", "phi3_fused", "t5_few_buckets")
STEPS = 50
# A large epsilon: the update follows the gradient's size, and rounding in gradients near zero does not grow.
SETTINGS = dict(
    steps=STEPS, warmup_steps=5, adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-4,
    weight_decay=0.01, max_grad_norm=1.0, lr_scheduler_type="linear",
)
LEARNING_RATES = {"t5_few_buckets": 5e-4}  # of the others 3e-3; more would make T5's curve chaotic
TOLERANCE = 1e-4


def is_t5(case):
    return case.startswith(("t5", "mt5"))


def load(case, dtype):
    if is_t5(case):
        return AutoModelForSeq2SeqLM.from_pretrained(DEFAULT_OUTPUT / case, dtype=dtype).eval()
    return make_references.load_model(DEFAULT_OUTPUT, case, dtype)


def make_pool(case, rng, vocab_size):
    """Nine sequences as snug feeds them."""
    pool = []
    for _ in range(9):
        length = rng.randrange(4, 13)
        if is_t5(case):
            answer = [rng.randrange(2, vocab_size) for _ in range(length)]
            source = [rng.randrange(vocab_size) for _ in range(rng.randrange(1, 16))]
            pool.append({"source": source, "ids": [make_t5_references.START] + answer[:-1], "targets": answer})
        else:
            pool.append(make_references.make_sequence(rng, vocab_size, length, rng.randrange(1, length - 1)))
    return pool


def loss_sum(case, model, sequences):
    if is_t5(case):
        count = sum(len(sequence["targets"]) for sequence in sequences)
        return make_t5_references.mean_loss(model, sequences) * count
    return make_references.token_losses(model, sequences).sum()


def decayed_names(model):
    """Trainer's own choice, which does not look at the trainer."""
    return set(Trainer.get_decay_parameter_names(None, model))


def train(case, model, pool, steps, learning_rate):
    """As transformers' Trainer takes the steps."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    decayed = decayed_names(model)
    groups = [
        {"params": [p for n, p in model.named_parameters() if n in decayed], "weight_decay": SETTINGS["weight_decay"]},
        {"params": [p for n, p in model.named_parameters() if n not in decayed], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        groups, lr=learning_rate, betas=(SETTINGS["adam_beta1"], SETTINGS["adam_beta2"]),
        eps=SETTINGS["adam_epsilon"],
    )
    schedule = get_linear_schedule_with_warmup(optimizer, SETTINGS["warmup_steps"], STEPS)
    rows = []
    for micro_batches in steps:
        targets = make_references.count_targets([pool[i] for batch in micro_batches for i in batch])
        optimizer.zero_grad()
        step_loss = 0.0
        for batch in micro_batches:
            loss = loss_sum(case, model, [pool[i] for i in batch]) / targets
            loss.backward()
            step_loss += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(parameters, SETTINGS["max_grad_norm"]).item()
        optimizer.step()
        schedule.step()
        rows.append({"micro_batches": micro_batches, "loss": step_loss, "grad_norm": norm})
    return rows


def write_decay():
    """For every model that the other scripts made."""
    names = {}
    for config in sorted(DEFAULT_OUTPUT.glob("*/config.json")):
        case = config.parent.name
        model = load(case, torch.float32)
        decayed = decayed_names(model)
        names[case] = sorted(n for n, _ in model.named_parameters() if n not in decayed)
    write_json(DEFAULT_OUTPUT / "not_decayed.json", names)


def main():
    write_decay()
    for case in MODELS:
        rng = random.Random("curve of " + case)
        model = load(case, torch.float64)
        pool = make_pool(case, rng, model.config.vocab_size)
        steps = []
        for _ in range(STEPS):
            chosen = rng.sample(range(len(pool)), 5)
            split = rng.randrange(1, 5)
            steps.append([chosen[:split], chosen[split:]])
        learning_rate = LEARNING_RATES.get(case, 3e-3)
        precision = make_t5_references if is_t5(case) else make_references
        with precision.full_double_precision():
            rows = train(case, model, pool, steps, learning_rate)
        single = train(case, load(case, torch.float32), pool, steps, learning_rate)
        worst = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(rows, single))
        write_json(DEFAULT_OUTPUT / case / "curve.json", {
            "settings": SETTINGS | {"learning_rate": learning_rate}, "sequences": pool, "steps": rows})
        print(f"{case}: {rows[0]['loss']:.3f} to {rows[-1]['loss']:.3f}; in float32 up to {worst:.1e} apart")
        assert worst < TOLERANCE, worst


if __name__ == "__main__":
    main()
