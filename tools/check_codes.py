#!/usr/bin/env python3
"""Compares the codes and scales that snug makes with those of bitsandbytes' CPU path, on very many weights.

    pip install -r tools/requirements-dev.txt
    python tools/check_codes.py --millions 128 --models FOLDER...

Random matrices of several sizes and dtypes until there are as many weights as asked for, and all matrices of the
models named. snug's side is src/backend/quantise.cc, compiled here as a library. Of nested scales the script counts
those that differ, with one thread of torch: with several, torch adds up large tensors in another order.
"""

import argparse
import ctypes
import subprocess
import tempfile
from pathlib import Path

import bitsandbytes.functional as bnb
import torch
from safetensors import safe_open

SOURCE = Path(__file__).resolve().parent.parent / "src"
SHIM = """
#include "backend/quantise.h"
using namespace snug;
extern "C" void four_bits(int fp4, const float* values, long count, uint8_t* codes, float* scales) {
  quantise_blocks(fp4 ? Coding::fp4 : Coding::nf4, 64, {values, (size_t)count}, codes, scales);
}
extern "C" void eight_bits(const float* values, long rows, long columns, int8_t* codes, float* scales) {
  quantise_rows(columns, {values, (size_t)(rows * columns)}, codes, scales);
}
extern "C" float nest(float* scales, long count, uint8_t* codes, float* nested) {
  return nest_scales(dynamic_map(), {scales, (size_t)count}, codes, nested);
}
"""
SHAPES = [(64, 64), (1000, 77), (768, 768), (2048, 512), (4096, 1024), (1536, 8960), (4096, 4096)]


def compiled(folder):
    library = Path(folder) / "codes.so"
    shim = Path(folder) / "shim.cc"
    shim.write_text(SHIM)
    sources = [SOURCE / name for name in (
        "backend/quantise.cc", "backend/scale_mean.cc", "base/code_formula.cc", "base/dynamic_map.cc", "base/dtype.cc")]
    subprocess.run(["g++", "-std=c++20", "-O2", "-march=x86-64-v3", "-ffp-contract=fast", "-fno-math-errno",
                    "-fno-trapping-math", "-shared", "-fPIC", f"-I{SOURCE}", shim, *sources, "-o", library],
                   check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.nest.restype = ctypes.c_float
    return loaded


def address(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class Comparison:
    def __init__(self, library):
        self.library = library
        self.counts = dict.fromkeys(
            ["weights", "nf4 codes", "nf4 scales", "fp4 codes", "fp4 scales", "int8 codes", "int8 scales",
             "tensors", "offsets", "blocks", "nested codes", "nested codes by more than one", "nested scales"], 0)

    def count(self, what, ours, theirs):
        self.counts[what] += int((ours != theirs).sum())

    def add(self, weight):
        values = weight.to(torch.float32).contiguous()
        count = values.numel()
        self.counts["weights"] += count
        self.counts["tensors"] += 1
        for fp4, kind in enumerate(["nf4", "fp4"]):
            codes = torch.empty((count + 1) // 2, dtype=torch.uint8)
            scales = torch.empty((count + 63) // 64)
            self.library.four_bits(fp4, address(values), ctypes.c_long(count), address(codes), address(scales))
            packed, state = bnb.quantize_4bit(weight, quant_type=kind, blocksize=64)
            self.count(kind + " codes", codes, packed.flatten())
            self.count(kind + " scales", scales, state.absmax)
            if kind == "nf4":
                self.add_nested(scales, weight)
        self.add_int8(values, weight)

    def add_nested(self, scales, weight):
        _, state = bnb.quantize_4bit(weight, quant_type="nf4", blocksize=64, compress_statistics=True)
        count = scales.numel()
        codes = torch.empty(count, dtype=torch.uint8)
        nested = torch.empty((count + 255) // 256)
        offset = self.library.nest(address(scales), ctypes.c_long(count), address(codes), address(nested))
        self.counts["blocks"] += count
        self.counts["offsets"] += int(offset != state.offset.item())
        self.count("nested codes", codes, state.absmax)
        self.counts["nested codes by more than one"] += int(
            ((codes.to(torch.int16) - state.absmax.to(torch.int16)).abs() > 1).sum())
        self.count("nested scales", nested, state.state2.absmax)

    def add_int8(self, values, weight):
        rows, columns = values.shape
        codes = torch.empty(rows, columns, dtype=torch.int8)
        scales = torch.empty(rows)
        self.library.eight_bits(address(values), ctypes.c_long(rows), ctypes.c_long(columns), address(codes),
                                address(scales))
        theirs, their_scales, _ = bnb.int8_vectorwise_quant(weight.to(torch.float16))
        self.count("int8 codes", codes, theirs)
        self.count("int8 scales", scales, their_scales)


def random_weights(wanted):
    generator = torch.Generator().manual_seed(7)
    made = 0
    index = 0
    while made < wanted:
        rows, columns = SHAPES[index % len(SHAPES)]
        dtype = [torch.float32, torch.bfloat16, torch.float16][index % 3]
        spread = [0.02, 0.3, 0.005][index // 3 % 3]
        yield (torch.randn(rows, columns, generator=generator) * spread).to(dtype)
        made += rows * columns
        index += 1


def trained_weights(folders):
    for folder in folders:
        for path in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                for name in file.keys():
                    tensor = file.get_tensor(name)
                    if tensor.dim() == 2 and tensor.is_floating_point():
                        yield tensor


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--millions", type=int, default=128)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--models", nargs="*", default=[])
    arguments = arguments.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(folder)
        for title, weights in [("random", random_weights(arguments.millions * 1_000_000)),
                               ("trained", trained_weights(arguments.models))]:
            comparison = Comparison(library)
            for weight in weights:
                comparison.add(weight)
            print(f"{title}: of " + ", ".join(
                f"{comparison.counts.pop(what):,} {what}" for what in ("weights", "tensors", "blocks")) + " differ")
            for what, differ in comparison.counts.items():
                print(f"  {what}: {differ}")


if __name__ == "__main__":
    main()
