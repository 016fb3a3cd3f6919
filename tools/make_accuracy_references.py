#!/usr/bin/env python3
"""Token accuracy as transformers has it: sequences whose next token is sometimes the one that the model finds most likely.

    python3 tools/make_accuracy_references.py     writes tests/goldens/references/accuracy.json

Each sequence is made token by token: the argmax of transformers' logits in float64, or a random token. "hits" counts where the next
token is the argmax. Where the two largest logits are close, the token is random, so that rounding decides nothing.
"""

import json
import pathlib
import random

import torch
from transformers import AutoModelForCausalLM

REFERENCES = pathlib.Path(__file__).resolve().parent.parent / "tests/goldens/references"
CASES = ("gqa_untied", "qwen2_tied", "mistral_window", "phi3_fused")
LENGTHS = (5, 9, 14, 2)
MARGIN = 1e-3


def make_sequence(model, length, rng):
    vocabulary = model.config.vocab_size
    ids = [rng.randrange(vocabulary)]
    hits = 0
    while len(ids) < length:
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        largest = torch.topk(logits, 2)
        best = int(largest.indices[0])
        is_clear = float(largest.values[0] - largest.values[1]) > MARGIN
        token = best if is_clear and rng.random() < 0.5 else rng.randrange(vocabulary)
        while token == best and not is_clear:
            token = rng.randrange(vocabulary)
        hits += int(token == best)
        ids.append(token)
    return ids, hits


def main():
    cases = {}
    for name in CASES:
        model = AutoModelForCausalLM.from_pretrained(REFERENCES / name, dtype=torch.float64).eval()
        rng = random.Random(name)
        with torch.no_grad():
            made = [make_sequence(model, length, rng) for length in LENGTHS]
        cases[name] = {"sequences": [ids for ids, _ in made], "hits": sum(hits for _, hits in made)}
        print(name, cases[name]["hits"], "of", sum(length - 1 for length in LENGTHS))
    text = json.dumps(cases)
    (REFERENCES / "accuracy.json").write_text(text.replace('}, "', '},\n"') + "\n")


if __name__ == "__main__":
    main()
