#!/usr/bin/env python3
"""Writes small checkpoints that transformers and bitsandbytes quantised, and what they make of them.

    pip install -r tools/requirements-dev.txt
    python tools/make_bitsandbytes_references.py

For each case below, tests/goldens/bitsandbytes/<case>/ gets a model folder (one of tests/goldens/references,
quantised and saved), dequantised.safetensors with what each quantised weight stands for, and logits.json: those of
the saved folder, loaded again, at every position of a sequence, in float32. Linear layers of int8 hold what their
codes stand for then: bitsandbytes' own product quantises activations as well, which snug does not. Where
tests/goldens/qlora has an adapter for the same weights, adapted.json has the logits with it in PEFT.
"""

import random
import shutil
import tempfile
from pathlib import Path

import bitsandbytes
import torch
from bitsandbytes.functional import dequantize_4bit, int8_vectorwise_dequant
from peft import PeftModel
from safetensors.torch import save_file
from transformers import (
    AutoModelForCausalLM, AutoModelForSeq2SeqLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM)

from make_code_references import dequantise_flat
from make_curve_references import is_t5
from make_references import DEFAULT_OUTPUT, write_json

OUTPUT = DEFAULT_OUTPUT.parent / "bitsandbytes"


def four_bits(kind, **options):
    return {"load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_compute_dtype": torch.float32} | options


NESTED = {"bnb_4bit_use_double_quant": True}
CASES = {
    "llama_nf4_double": ("gqa_untied", torch.float32, four_bits("nf4", **NESTED)),
    "llama_nf4_bf16": ("gqa_untied", torch.bfloat16, four_bits("nf4", bnb_4bit_quant_storage=torch.bfloat16)),
    "llama_int8": ("gqa_untied", torch.float32, {"load_in_8bit": True}),
    # k_proj is plain beside q_proj and v_proj; a list of one's own leaves the head to be quantised
    "llama_skipped": ("gqa_untied", torch.float32, four_bits("nf4", llm_int8_skip_modules=[
        "model.layers.0.self_attn.k_proj", "model.layers.1.mlp"])),
    "mistral_fp4_fp16": ("mistral_window", torch.float16, four_bits("fp4", bnb_4bit_quant_storage=torch.float16)),
    "qwen2_nf4_blocks": ("qwen2_tied", torch.float32, four_bits("nf4", bnb_4bit_quant_storage=torch.float32)),
    "qwen3_fp4_double": ("qwen3_head_norms", torch.float32, four_bits("fp4", **NESTED)),
    "phi3_nf4": ("phi3_fused", torch.float32, four_bits("nf4", bnb_4bit_quant_storage=torch.int8)),
    "t5_nf4_double": ("t5_few_buckets", torch.float32, four_bits("nf4", **NESTED)),
    "bytes_nf4_double": ("bytes", torch.bfloat16, four_bits("nf4", **NESTED)),  # for a tokenizer of bytes
    "t5_int8": ("t5_few_buckets", torch.float32, {"load_in_8bit": True}),
}
ADAPTERS = {"llama_nf4_double": "llama", "phi3_nf4": "phi3"}
BLOCKS = {"qwen2_nf4_blocks": 128}  # others have bitsandbytes' own 64


def base_of(model):
    """Its folder, or a model that is made here."""
    if model != "bytes":
        return DEFAULT_OUTPUT / model
    torch.manual_seed(11)
    folder = Path(tempfile.mkdtemp())
    LlamaForCausalLM(LlamaConfig(
        vocab_size=258, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=256,
        eos_token_id=257)).save_pretrained(folder)
    return folder


def kind_of(model):
    return AutoModelForSeq2SeqLM if is_t5(model) else AutoModelForCausalLM


def save_quantised(case, folder):
    model, dtype, options = CASES[case]
    make = bitsandbytes.nn.Params4bit.__new__
    bitsandbytes.nn.Params4bit.__new__ = staticmethod(
        lambda cls, *arguments, **named: make(cls, *arguments, **(named | {"blocksize": BLOCKS.get(case, 64)})))
    quantised = kind_of(model).from_pretrained(
        base_of(model), dtype=dtype, quantization_config=BitsAndBytesConfig(**options),
        device_map={"": "cpu"})
    bitsandbytes.nn.Params4bit.__new__ = make
    quantised.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)


def dequantised(model):
    weights = {}
    for name, module in model.named_modules():
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            module.support_avx512bf16_for_cpu = False  # another layout, for wider models
            weights[name] = dequantize_4bit(module.weight.data, module.weight.quant_state)
        elif isinstance(module, bitsandbytes.nn.Linear8bitLt):
            weights[name] = int8_vectorwise_dequant(module.weight.data, module.weight.SCB)
    return weights


def replace(model, weights, kind):
    for name, weight in weights.items():
        module = model.get_submodule(name)
        if isinstance(module, kind):
            plain = torch.nn.Linear(module.in_features, module.out_features, bias=module.bias is not None)
            plain.weight.data = weight.to(torch.float32)
            if module.bias is not None:
                plain.bias.data = module.bias.data
            model.set_submodule(name, plain)


@torch.no_grad()
def logits_of(case, model):
    rng = random.Random("logits of " + case)
    ids = [rng.randrange(3, model.config.vocab_size) for _ in range(9)]
    if not is_t5(CASES[case][0]):
        return {"ids": ids, "source": [], "logits": model(torch.tensor([ids])).logits[0].tolist()}
    source = [rng.randrange(3, model.config.vocab_size) for _ in range(7)]
    output = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([ids]))
    return {"ids": ids, "source": source, "logits": output.logits[0].tolist()}


def fp32_error(case, model, logits):
    """How far they are from those of the same weights in float64, by the largest."""
    exact = {name: dequantize_4bit(module.weight.data, float32_state(module))
             for name, module in model.named_modules() if isinstance(module, bitsandbytes.nn.Linear4bit)}
    replace(model, exact, bitsandbytes.nn.Linear4bit)
    wide = torch.tensor(logits_of(case, model.double())["logits"], dtype=torch.float64)
    return ((torch.tensor(logits["logits"], dtype=torch.float64) - wide).abs().max() / wide.abs().max()).item()


def float32_state(module):
    state = module.weight.quant_state
    state.dtype = torch.float32
    return state


def main():
    torch.set_num_threads(1)
    dequantise_flat()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    for case, (model, _, _) in CASES.items():
        folder = OUTPUT / case
        save_quantised(case, folder)
        loaded = kind_of(model).from_pretrained(folder, dtype=torch.float32, device_map={"": "cpu"}).eval()
        weights = dequantised(loaded)
        for parameter in loaded.parameters():  # transformers keeps what the file has
            if type(parameter) is torch.nn.Parameter and parameter.is_floating_point():
                parameter.data = parameter.data.to(torch.float32)
        save_file({f"{name}.weight": weight.contiguous() for name, weight in weights.items()},
                  folder / "dequantised.safetensors")
        replace(loaded, weights, bitsandbytes.nn.Linear8bitLt)
        logits = logits_of(case, loaded)
        if case in ADAPTERS:
            adapted = PeftModel.from_pretrained(loaded, OUTPUT.parent / "qlora" / ADAPTERS[case] / "initial_adapter")
            write_json(folder / "adapted.json", logits_of(case, adapted.eval()))
            loaded = adapted.unload()
        write_json(folder / "logits.json", logits | {"fp32_error": fp32_error(case, loaded, logits)})
        dtypes = {str(weight.dtype) for weight in weights.values()}
        print(f"{case}: {len(weights)} quantised weights, {', '.join(dtypes)}")


if __name__ == "__main__":
    main()
