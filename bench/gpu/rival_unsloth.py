#!/usr/bin/env python3
"""Unsloth on one case of rivals.py: random tokens, fused AdamW. Prints "STEPS [seconds, ...]"."""

import argparse
import json
import os
import time

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", UNSLOTH_DISABLE_STATISTICS="1")

from unsloth import FastLanguageModel  # noqa: E402  it must come before torch

import torch  # noqa: E402

LINEARS = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj".split()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--four-bits", action="store_true")
    options = parser.parse_args()
    model, _ = FastLanguageModel.from_pretrained(
        options.model, max_seq_length=options.length, dtype=torch.bfloat16, load_in_4bit=options.four_bits,
        use_gradient_checkpointing=options.checkpointing, local_files_only=True)
    model = FastLanguageModel.get_peft_model(
        model, r=options.rank, target_modules=LINEARS, lora_alpha=2 * options.rank, lora_dropout=0, bias="none",
        use_gradient_checkpointing=options.checkpointing, max_seq_length=options.length)
    FastLanguageModel.for_training(model, use_gradient_checkpointing=options.checkpointing)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    seconds = []
    for _ in range(options.steps):
        shape = (options.batch, options.length)
        batches = [torch.randint(0, model.config.vocab_size, shape, device="cuda") for _ in range(options.accumulate)]
        torch.cuda.synchronize()
        start = time.perf_counter()
        for ids in batches:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=ids, labels=ids).loss / options.accumulate
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        print(f"step {len(seconds)}: {seconds[-1]:.4f} s, loss {loss.item() * options.accumulate:.4f}", flush=True)
    print("STEPS " + json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
