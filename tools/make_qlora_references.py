#!/usr/bin/env python3
"""Writes the loss curves that snug's QLoRA is tested against: 20 steps with peft on weights that bitsandbytes quantised.

    pip install -r tools/requirements-dev.txt
    python tools/make_qlora_references.py

For each case below, tests/goldens/qlora/<case>/ gets an adapter and curve.json: the model (one of
tests/goldens/references), how it is quantised, the sequences, the settings and what each step saw before its update.
All computation is in float32 on the CPU. Linear layers of int8 hold what their codes stand for: bitsandbytes' own
product quantises activations as well, which snug does not.
"""

import json
import random
import shutil

import bitsandbytes
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, BitsAndBytesConfig, get_linear_schedule_with_warmup

import make_references
from make_code_references import dequantise_flat
from make_curve_references import SETTINGS, decayed_names, is_t5, loss_sum, make_pool
from make_references import DEFAULT_OUTPUT, write_json

OUTPUT = DEFAULT_OUTPUT.parent / "qlora"
CASES = {
    "llama": ("gqa_untied", "nf4_double"),
    "llama_int8": ("gqa_untied", "int8"),
    "mistral": ("mistral_window", "nf4"),
    "qwen2": ("qwen2_tied", "nf4_double"),
    "qwen3": ("qwen3_head_norms", "fp4"),
    "phi3": ("phi3_fused", "nf4"),
    "t5": ("t5_few_buckets", "nf4_double"),
}
STEPS = 20
LEARNING_RATE = 3e-3


def load(model, quantization):
    kind = AutoModelForSeq2SeqLM if is_t5(model) else AutoModelForCausalLM
    if quantization == "int8":
        loaded = kind.from_pretrained(DEFAULT_OUTPUT / model, dtype=torch.float32)
        for name, module in loaded.named_modules():
            if isinstance(module, torch.nn.Linear) and name != "lm_head":
                codes, scales, _ = bitsandbytes.functional.int8_vectorwise_quant(module.weight.data.to(torch.float16))
                module.weight.data = bitsandbytes.functional.int8_vectorwise_dequant(codes, scales)
        return loaded
    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type=quantization.split("_")[0], bnb_4bit_compute_dtype=torch.float32,
        bnb_4bit_use_double_quant=quantization.endswith("_double"),
    )
    loaded = kind.from_pretrained(
        DEFAULT_OUTPUT / model, dtype=torch.float32, quantization_config=config, device_map={"": "cpu"})
    for module in loaded.modules():
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            module.support_avx512bf16_for_cpu = False  # another layout, for wider models
    return loaded


def adapted(case, model, seed):
    torch.manual_seed(seed)
    task = "SEQ_2_SEQ_LM" if is_t5(CASES[case][0]) else "CAUSAL_LM"
    config = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear", task_type=task)
    model = get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.15 if "lora_A" in name else 0.05)
    model.peft_config["default"].base_model_name_or_path = f"../../references/{CASES[case][0]}"
    folder = OUTPUT / case / "initial_adapter"
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    saved = json.loads(path.read_text())
    saved["target_modules"].sort()
    path.write_text(json.dumps(saved, indent=2) + "\n")
    return model.eval()


def train(model_name, model, pool, steps):
    """As transformers' Trainer takes the steps."""
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    decayed = decayed_names(model)
    groups = [
        {"params": [p for n, p in trained.items() if n in decayed], "weight_decay": SETTINGS["weight_decay"]},
        {"params": [p for n, p in trained.items() if n not in decayed], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        groups, lr=LEARNING_RATE, betas=(SETTINGS["adam_beta1"], SETTINGS["adam_beta2"]), eps=SETTINGS["adam_epsilon"])
    schedule = get_linear_schedule_with_warmup(optimizer, SETTINGS["warmup_steps"], STEPS)
    rows = []
    for micro_batches in steps:
        targets = make_references.count_targets([pool[i] for batch in micro_batches for i in batch])
        optimizer.zero_grad()
        step_loss = 0.0
        for batch in micro_batches:
            loss = loss_sum(model_name, model, [pool[i] for i in batch]) / targets
            loss.backward()
            step_loss += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(trained.values(), SETTINGS["max_grad_norm"]).item()
        optimizer.step()
        schedule.step()
        rows.append({"micro_batches": micro_batches, "loss": step_loss, "grad_norm": norm})
    return rows


def main():
    torch.set_num_threads(1)
    dequantise_flat()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    for seed, (case, (model_name, quantization)) in enumerate(CASES.items()):
        rng = random.Random("qlora of " + case)
        base = load(model_name, quantization)
        kinds = sorted({type(module).__name__ for module in base.modules() if isinstance(module, torch.nn.Linear)})
        pool = make_pool(model_name, rng, base.config.vocab_size)
        steps = []
        for _ in range(STEPS):
            chosen = rng.sample(range(len(pool)), 5)
            split = rng.randrange(1, 5)
            steps.append([chosen[:split], chosen[split:]])
        rows = train(model_name, adapted(case, base, seed), pool, steps)
        write_json(OUTPUT / case / "curve.json", {
            "model": model_name, "quantization": quantization,
            "settings": SETTINGS | {"steps": STEPS, "learning_rate": LEARNING_RATE},
            "sequences": pool, "steps": rows})
        print(f"{case}: {rows[0]['loss']:.4f} to {rows[-1]['loss']:.4f} ({', '.join(kinds)})")


if __name__ == "__main__":
    main()
