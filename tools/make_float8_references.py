#!/usr/bin/env python3
"""Writes the codes that PyTorch makes of floats in 8 bits, for the tests of base/float8.h.

    pip install -r tools/requirements-dev.txt
    python tools/make_float8_references.py

tests/goldens/codes/float8.safetensors has values and codes of E4M3 and E5M2: every number, the middle between
neighbours and what lies next to it, what is too large (which PyTorch is given as the largest number), what is too small,
and NaN. And it has rows with their scales, powers of two, and codes.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file

OUTPUT = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "codes" / "float8.safetensors"
KINDS = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0)}
SMALLEST_SCALE = 2.0**-100


def cast(values, kind):
    dtype, largest = KINDS[kind]
    return values.clamp(-largest, largest).to(dtype).view(torch.uint8)


def edges(kind):
    dtype, largest = KINDS[kind]
    numbers = torch.arange(128, dtype=torch.uint8).view(dtype).float()
    numbers = numbers[numbers.isfinite()]
    middles = (numbers[1:] + numbers[:-1]) / 2
    up = torch.nextafter(middles, torch.tensor(torch.inf))
    down = torch.nextafter(middles, torch.tensor(0.0))
    rest = torch.tensor([largest * 1.01, largest * 1.1, 1e30, torch.inf, 1e-30, 1e-45, torch.nan])
    values = torch.cat([numbers, middles, up, down, rest])
    return torch.cat([values, -values[:-1]])


def rows():
    generator = torch.Generator().manual_seed(8)
    values = torch.randn(12, 80, generator=generator) * 0.02
    values[1] = 0
    values[2] *= 1e-38  # some are no normal numbers
    values[3, 7] = -3000
    values[4] *= 2.0 ** torch.randint(-30, 10, (80,), generator=generator)
    for row, largest in ((5, 1.75), (6, 1.7500001), (7, 1.0), (8, 1.9999999)):
        values[row] = values[row].clamp(-1, 1)
        values[row, 11] = largest
    values[9] *= 1e30
    largest = values.abs().amax(1).double()
    scales = (2.0 ** torch.ceil(torch.log2(largest / 448))).clamp(min=SMALLEST_SCALE)
    codes = torch.stack([cast((row / scale).float(), "e4m3") for row, scale in zip(values.double(), scales)])
    return {"rows.values": values, "rows.scales": scales.float(), "rows.codes": codes}


def main():
    tensors = rows()
    for kind in KINDS:
        tensors[kind + ".values"] = edges(kind)
        tensors[kind + ".codes"] = cast(tensors[kind + ".values"], kind)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, OUTPUT)


if __name__ == "__main__":
    main()
