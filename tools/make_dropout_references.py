#!/usr/bin/env python3
"""Writes what snug's dropout is tested against: transformers' models in training mode, with snug's masks.

    pip install -r tools/requirements-dev.txt
    python tools/make_dropout_references.py

transformers decides where something is dropped; only the random numbers are replaced, by the rule that
src/backend/dropout_mask.h states and that is written down here once more. For each tiny model below,
tests/goldens/references/<model>/ gets dropout.json (rate, seed, step, loss) and dropout_gradients.safetensors, for the
batch of its batch.json, computed in float64. The same is computed once more in float32; the script fails if the two
part by more than the tests allow.
"""

import contextlib
import json

import numpy
import torch
from transformers import AutoModelForCausalLM, T5ForConditionalGeneration

import make_references
import make_t5_references
from make_references import DEFAULT_OUTPUT, save_tensors, write_json

MODELS = ("t5_few_buckets", "phi3_fused", "llama_linear_rope", "qwen2_untied_window")
RATES = ("dropout_rate", "attention_dropout", "resid_pdrop", "embd_pdrop")  # transformers' names, where a config has them
RATE = 0.3
SEED = 1234
FIRST_STREAM = 1 << 32
MASKED_KEYS = 1 << 24
WORST_FLOAT32 = 5e-6  # relative difference of a gradient


def philox(key, stream, counter):
    """Philox4x32-7 of an array of counters: [..., 4] words."""
    low, half = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    c0, c1 = counter & low, counter >> half
    c2 = numpy.full_like(counter, stream & 0xFFFFFFFF)
    c3 = numpy.full_like(counter, stream >> 32)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(7):
        p0, p1 = numpy.uint64(0xD2511F53) * c0, numpy.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (
            (p1 >> half) ^ c1 ^ numpy.uint64(k0), p1 & low, (p0 >> half) ^ c3 ^ numpy.uint64(k1), p0 & low,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack([c0, c1, c2, c3], axis=-1)


def spread(step):
    """The finaliser of splitmix64."""
    ones = (1 << 64) - 1
    value = (step + 0x9E3779B97F4A7C15) & ones
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & ones
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & ones
    return value ^ (value >> 31)


def factors(elements, stream, step, rate):
    """1 / (1 - rate) for the elements that are kept, 0 for the others."""
    elements = elements.astype(numpy.uint64)
    words = philox(SEED, stream ^ spread(step), elements >> numpy.uint64(3))
    place = (elements & numpy.uint64(7)).astype(numpy.int64)
    word = numpy.take_along_axis(words, (place // 2)[..., None], axis=-1)[..., 0]
    half = numpy.where(place % 2 == 0, word & numpy.uint64(0xFFFF), word >> numpy.uint64(16))
    return torch.from_numpy(numpy.where(half >= round(rate * 65536), 1 / (1 - rate), 0.0))


class Masks:
    """torch.nn.functional.dropout with snug's masks: padded tensors, whose rows are found by their lengths."""

    def __init__(self, sequences, step):
        self.step = step
        self.calls = 0
        self.lengths = [[len(sequence["ids"]) for sequence in sequences]]
        if "source" in sequences[0]:
            self.lengths.append([len(sequence["source"]) for sequence in sequences])
        longest = [max(lengths) for lengths in self.lengths]
        assert len(set(longest)) == len(longest), "the padded length has to tell source and answer apart"

    def places(self, longest):
        """[sequences, longest]: each token's number within the step; of padding any."""
        lengths = next(lengths for lengths in self.lengths if max(lengths) == longest)
        firsts = numpy.cumsum([0] + lengths[:-1])
        return firsts[:, None] + numpy.arange(longest)[None, :]

    def __call__(self, values, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return values
        stream = FIRST_STREAM + self.calls
        self.calls += 1
        if values.dim() == 4:  # attention's weights [sequences, heads, queries, keys]
            heads, keys = values.shape[1], values.shape[3]
            rows = self.places(values.shape[2])[:, None, :] * heads + numpy.arange(heads)[None, :, None]
            elements = rows[..., None] * MASKED_KEYS + numpy.arange(keys)
        else:
            elements = self.places(values.shape[1])[..., None] * values.shape[2] + numpy.arange(values.shape[2])
        return values * factors(elements, stream, self.step, p).to(values.dtype)


def softmax_as_given(values, dim, dtype=None):
    """Without the conversion to float32 that attention in Python asks for."""
    return torch.softmax(values, dim)


@contextlib.contextmanager
def patched(name, function):
    original = getattr(torch.nn.functional, name)
    setattr(torch.nn.functional, name, function)
    try:
        yield
    finally:
        setattr(torch.nn.functional, name, original)


def load(case, dtype):
    """In training mode, and with attention in Python, where its dropout can be seen."""
    kind = T5ForConditionalGeneration if case.startswith("t5") else AutoModelForCausalLM
    model = kind.from_pretrained(DEFAULT_OUTPUT / case, dtype=dtype, attn_implementation="eager")
    config = model.config
    for name in RATES:
        if hasattr(config, name):
            setattr(config, name, RATE)
    return kind.from_pretrained(DEFAULT_OUTPUT / case, dtype=dtype, attn_implementation="eager", config=config).train()


def loss_and_gradients(case, dtype, sequences, step):
    precision = make_t5_references if case.startswith("t5") else make_references
    masks = Masks(sequences, step)
    model = load(case, dtype)
    with patched("dropout", masks), contextlib.ExitStack() as stack:
        if dtype == torch.float64:
            stack.enter_context(precision.full_double_precision())
            stack.enter_context(patched("softmax", softmax_as_given))
        result = precision.loss_and_gradients(model, sequences)
    assert masks.calls > 0
    return result[0], result[-1], masks.calls


def float32_error(case, sequences, step):
    _, gradients, _ = loss_and_gradients(case, torch.float64, sequences, step)
    _, single, _ = loss_and_gradients(case, torch.float32, sequences, step)
    return max(((single[n].double() - g).norm() / g.norm()).item() for n, g in gradients.items())


def main():
    torch.set_num_threads(1)
    for case in MODELS:
        sequences = json.loads((DEFAULT_OUTPUT / case / "batch.json").read_text())["sequences"]
        # Softmax over few keys can cancel so far that float32 cannot say anything; take the step where it says most.
        worst, step = min((float32_error(case, sequences, step), step) for step in range(1, 21))
        assert worst < WORST_FLOAT32, (case, worst)
        loss, gradients, calls = loss_and_gradients(case, torch.float64, sequences, step)
        folder = DEFAULT_OUTPUT / case
        write_json(folder / "dropout.json", {"rate": RATE, "seed": SEED, "step": step, "places": calls, "loss": loss})
        save_tensors(folder / "dropout_gradients.safetensors", gradients)
        print(f"{case}: {calls} places, step {step}, loss {loss:.4f}; float32 differs by {worst:.1e} at most")


if __name__ == "__main__":
    main()
