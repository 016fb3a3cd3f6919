#!/usr/bin/env python3
"""Writes the codes that bitsandbytes makes on the CPU, for the tests of base/code_formula.h.

    pip install -r tools/requirements-dev.txt
    python tools/make_code_references.py

tests/goldens/codes/codes.safetensors has, for each case, the values; for nf4, fp4 and both with nested scales the
codes, scales and what they dequantise to in float32 and bfloat16; and for int8 the same. And it has means that
torch makes on one thread, which is how nested scales get their offset.
"""

import ctypes
from pathlib import Path

import bitsandbytes.backends.cpu.ops as cpu_ops
import bitsandbytes.functional as bnb
import torch
from safetensors.torch import save_file

OUTPUT = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "codes" / "codes.safetensors"


class FlatLibrary:
    """bitsandbytes' library, for which every 4-bit weight is one row.

    On processors with AVX-512, version 0.50 takes the scales of other blocks where a row is not made of whole blocks.
    """

    def __init__(self, library):
        self.library = library

    def __getattr__(self, name):
        function = getattr(self.library, name)
        if not name.startswith(("cdequantize_blockwise_cpu_nf4", "cdequantize_blockwise_cpu_fp4")):
            return function
        return lambda codes, scales, out, block, rows, columns: function(
            codes, scales, out, block, ctypes.c_longlong(1), ctypes.c_longlong(rows.value * columns.value))


def dequantise_flat():
    cpu_ops.lib = FlatLibrary(cpu_ops.lib)


def cases():
    generator = torch.Generator().manual_seed(20)

    def normal(rows, columns):
        return torch.randn(rows, columns, generator=generator) * 0.02

    edges = torch.zeros(6, 64)  # a row is a block: zeros, hardly anything, little, one value, steps, bounds
    edges[1] = 1e-39
    edges[2] = normal(1, 64)[0] * 1e-30
    edges[3, 5] = -3
    edges[4] = torch.arange(64) - 31.5
    levels = bnb.get_4bit_type("nf4", device="cpu")
    edges[5, :16] = levels
    edges[5, 16:31] = (levels[1:] + levels[:-1]) / 2
    yield "blocks", normal(24, 64)
    yield "odd", normal(7, 35)  # ends in a shorter block, and in half a byte
    yield "bf16", normal(8, 96).to(torch.bfloat16)
    yield "fp16", normal(8, 96).to(torch.float16)
    yield "edges", edges
    yield "many_blocks", normal(259, 64).to(torch.bfloat16)  # more than one nested block


def means(lengths):
    """torch.mean of values that the test makes in the same way: a linear congruential generator's upper bits."""
    values = []
    state = 1
    for _ in range(max(lengths)):
        state = (state * 1664525 + 1013904223) % 2**32
        values.append((state >> 8) * 2.0**-30)
    values = torch.tensor(values)
    return torch.stack([values[:length].mean() for length in lengths])


def main():
    torch.set_num_threads(1)
    dequantise_flat()
    tensors = {}
    for name, values in cases():
        tensors[name] = values
        for kind in ("nf4", "fp4"):
            for nested in (False, True):
                codes, state = bnb.quantize_4bit(values, quant_type=kind, compress_statistics=nested)
                prefix = f"{name}.{kind}_double" if nested else f"{name}.{kind}"
                tensors[prefix + ".codes"] = codes.flatten()
                tensors[prefix + ".scales"] = state.absmax
                if nested:
                    tensors[prefix + ".nested_scales"] = state.state2.absmax
                    tensors[prefix + ".offset"] = state.offset.reshape(1)
                state.dtype = torch.float32
                if values.numel() < 5000:  # the larger ones in bf16 alone, to keep the file small
                    tensors[prefix + ".fp32"] = bnb.dequantize_4bit(codes, state)
                state.dtype = torch.bfloat16
                if name != "edges":  # processors round what is next to nothing to bf16 in different ways
                    tensors[prefix + ".bf16"] = bnb.dequantize_4bit(codes, state)
        codes, scales, _ = bnb.int8_vectorwise_quant(values.to(torch.float16))
        tensors[name + ".int8.codes"] = codes.view(torch.uint8).flatten()
        tensors[name + ".int8.scales"] = scales
        if values.numel() < 5000:
            tensors[name + ".int8.fp32"] = bnb.int8_vectorwise_dequant(codes, scales)
        tensors[name + ".int8.bf16"] = bnb.int8_vectorwise_dequant(codes, scales).to(torch.bfloat16)
    tensors["fp4_map"] = bnb.get_4bit_type("fp4", device="cpu")
    tensors["nf4_map"] = bnb.get_4bit_type("nf4", device="cpu")
    tensors["dynamic_map"] = bnb.create_dynamic_map()
    lengths = [1, 7, 31, 33, 100, 511, 4096, 16385, 131072, 300007, 917504]
    tensors["mean_lengths"] = torch.tensor(lengths)
    tensors["means"] = means(lengths)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, OUTPUT)


if __name__ == "__main__":
    main()
