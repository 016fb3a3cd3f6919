#!/usr/bin/env python3
"""Writes tests/goldens/states8/adamw.safetensors: 50 steps of bitsandbytes' 8-bit AdamW by its CUDA kernels.

Needs a card, PyTorch and a CUDA build of bitsandbytes' library, whose functions are called as they are:
  tools/make_state_references.py --library .../libbitsandbytes_cuda130.so --out tests/goldens/states8/adamw.safetensors
Parameters and gradients are made of integers, so that the test makes the same ones (tests/support/state_reference.h).
Beside the card runs a model of the kernel in numpy; how many codes the two share is printed. Without --library the
model's own numbers are written, for a first look where there is no card.
"""

import argparse
import ctypes
import json
import struct

import numpy as np
import torch

SIZES = [4096, 4355, 5000, 1000]  # the last one is too small for codes
DECAYS = [0.01, 0.0, 0.1, 0.01]
BETAS = (0.9, 0.999)
EPSILON = 1e-8
STEPS = 50
KEPT = [1, 10, 50]  # steps after which codes are kept
BLOCK = 256
F = np.float32


def mix(value):
    """The finaliser of splitmix64, as in base/rng.h."""
    with np.errstate(over="ignore"):
        value = value + np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))


def values(tensor, step):
    """In (-1, 1), times a power of two of each element's own; step 0 gives the parameters."""
    elements = np.arange(SIZES[tensor], dtype=np.uint64)
    place = np.uint64(tensor << 50) + elements
    number = mix(place + np.uint64(step << 32)) >> np.uint64(40)
    exponent = (mix(place + np.uint64(1 << 60)) % np.uint64(8)).astype(np.int32)
    result = (number.astype(F) * F(2.0**-23) - F(1)) * np.exp2(-exponent).astype(F)
    if tensor == 1 and step > 0:
        result[:300] = 0  # a block of zeros, and a part of the next one
    return result


def learning_rate(step):
    return F(1e-3 * (1 - (step - 1) / 64))


def dynamic_map(signed):
    data = [0.0, 1.0]
    for i in range(7):
        points = torch.linspace(0.1, 1, 2 ** (i + (0 if signed else 1)) + 1, dtype=torch.float32)
        means = 10 ** (i - 6) * ((points[:-1] + points[1:]) / 2.0)
        data += means.tolist() + ((-means).tolist() if signed else [])
    return np.sort(np.array(data)).astype(F)


class Model:
    """The kernel's arithmetic, rounded to fp32 after every operation."""

    def __init__(self, tensor):
        self.n = SIZES[tensor]
        self.tensor = tensor
        self.maps = dynamic_map(True), dynamic_map(False)
        blocks = -(-self.n // BLOCK)
        self.codes = [np.zeros(blocks * BLOCK, np.uint8) for _ in range(2)]
        self.scales = [np.zeros(blocks, F) for _ in range(2)]
        self.p = values(tensor, 0)
        self.is_small = self.n < 4096

    def code(self, k, x):
        table = self.maps[k]
        lower = np.clip(np.searchsorted(table, x, side="left") - 1, 0, 254)
        middle = (table[lower] + table[lower + 1]) * F(0.5)
        upper_is_even = lower % 2 == 1
        return (lower + ((x > middle) | ((x == middle) & upper_is_even))).astype(np.uint8)

    def step(self, t):
        g = np.zeros(len(self.codes[0]), F)
        g[: self.n] = values(self.tensor, t)
        b1, b2 = F(BETAS[0]), F(BETAS[1])
        s = [self.maps[k][self.codes[k]] * np.repeat(self.scales[k], BLOCK) for k in range(2)]
        if self.is_small and t > 1:
            s = self.moments
        s[1] = s[1] * b2 + (F(1) - b2) * g * g
        s[0] = s[0] * b1 + (F(1) - b1) * g
        c1 = F(1 - BETAS[0] ** t)
        c2 = np.sqrt(F(1 - BETAS[1] ** t))
        lr = learning_rate(t)
        move = s[0] / (np.sqrt(s[1]) + c2 * F(EPSILON))
        self.p = (self.p - lr * c2 / c1 * move[: self.n]).astype(F)
        if DECAYS[self.tensor] > 0:
            self.p = self.p * (F(1) - lr * F(DECAYS[self.tensor]))
        for k in range(2):
            self.scales[k] = np.abs(s[k]).reshape(-1, BLOCK).max(axis=1)
            largest = np.repeat(np.maximum(self.scales[k], F(1e-38)), BLOCK)
            code = self.code(k, s[k] / largest)
            if k == 0:
                flipped = np.signbit(self.maps[0][code]) != np.signbit(s[0])
                code = np.where(flipped, np.where(s[0] > 0, code + 1, code - 1), code).astype(np.uint8)
            self.codes[k] = code
        if self.is_small:
            self.moments = s

    def state(self):
        if self.is_small:
            return {"p": self.p}
        return {"first": self.codes[0][: self.n], "second": self.codes[1][: self.n],
                "first_scales": self.scales[0], "second_scales": self.scales[1], "p": self.p}


class Card:
    def __init__(self, tensor, library):
        self.library = library
        self.tensor = tensor
        self.n = SIZES[tensor]
        blocks = -(-self.n // BLOCK)
        is_small = self.n < 4096
        zeros = lambda count, dtype: torch.zeros(count, dtype=dtype, device="cuda")
        self.p = torch.from_numpy(values(tensor, 0)).cuda()
        self.states = [zeros(self.n, torch.float32 if is_small else torch.uint8) for _ in range(2)]
        self.scales = [zeros(blocks, torch.float32) for _ in range(2)]
        self.maps = [torch.from_numpy(dynamic_map(signed)).cuda() for signed in (True, False)]

    def step(self, t):
        g = torch.from_numpy(values(self.tensor, t)).cuda()
        pointer = lambda x: ctypes.c_void_p(x.data_ptr())
        f = ctypes.c_float
        rates = [f(BETAS[0]), f(BETAS[1]), f(0), f(0), f(EPSILON)]
        lr, decay, n = f(float(learning_rate(t))), f(DECAYS[self.tensor]), ctypes.c_int(self.n)
        tail = [f(1), ctypes.c_bool(False), n]  # scale of the gradient, skip zeros, elements
        if self.n < 4096:
            self.library.cadam32bit_grad_fp32(
                pointer(g), pointer(self.p), *map(pointer, self.states), None, f(0), f(0), *rates, decay,
                ctypes.c_int(t), lr, *tail)
        else:
            self.library.cadam_8bit_blockwise_grad_fp32(
                pointer(self.p), pointer(g), *map(pointer, self.states), *rates, ctypes.c_int(t), lr,
                *map(pointer, self.maps), *map(pointer, self.scales), decay, *tail)
        torch.cuda.synchronize()

    def state(self):
        numpy = lambda x: x.cpu().numpy()
        if self.n < 4096:
            return {"p": numpy(self.p)}
        return {"first": numpy(self.states[0]), "second": numpy(self.states[1]),
                "first_scales": numpy(self.scales[0]), "second_scales": numpy(self.scales[1]), "p": numpy(self.p)}


def save(path, tensors):
    header, data = {}, b""
    for name, tensor in sorted(tensors.items()):
        raw = np.ascontiguousarray(tensor).tobytes()
        dtype = {"uint8": "U8", "float32": "F32"}[str(tensor.dtype)]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    library = None
    if arguments.library:
        torch.cuda.init()
        library = ctypes.CDLL(arguments.library)
    tensors = {"first_map": dynamic_map(True), "second_map": dynamic_map(False)}
    for tensor in range(len(SIZES)):
        model = Model(tensor)
        source = Card(tensor, library) if library else model
        for step in range(1, STEPS + 1):
            source.step(step)
            if library:
                model.step(step)
            if step not in KEPT:
                continue
            state = source.state()
            for name, value in state.items():
                if name != "p" or step != 10:
                    tensors[f"{tensor}.{step}.{name}"] = value
            line = f"tensor {tensor} step {step}:"
            for name in ("first", "second"):
                if library and name in state:
                    line += f" {name} {np.mean(state[name] == model.state()[name]):.5f} of the codes equal;"
            print(line, "parameters differ by", np.abs(state["p"] - model.state()["p"]).max())
    save(arguments.out, tensors)


if __name__ == "__main__":
    main()
