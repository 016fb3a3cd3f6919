#!/usr/bin/env python3
"""Writes the T5 cases of the reference values (tools/make_references.py has the rest and explains the files).

    pip install -r tools/requirements-dev.txt
    python tools/make_t5_references.py
"""

import argparse
import contextlib
import json
import random
import shutil
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForSeq2SeqLM, T5ForConditionalGeneration
from transformers.models.mt5 import modeling_mt5
from transformers.models.t5 import modeling_t5

from make_references import DEFAULT_OUTPUT, GENERATED_TOKENS, IGNORED, count_targets, save_tensors, saved_name, write_json

EOS = 1
START = 0
SOURCE_LENGTHS = (9, 1, 17)
TARGET_LENGTHS = (4, 11, 1)
WORST_FLOAT32 = 7e-6  # relative difference of a gradient

MODELS = {
    # Few buckets over short distances, so that far ones are shared within these sequences.
    "t5_few_buckets": dict(
        d_model=24, d_kv=8, num_heads=3, d_ff=40, num_layers=2, num_decoder_layers=2, vocab_size=67,
        relative_attention_num_buckets=8, relative_attention_max_distance=11,
    ),
    # Stacks of different depth, an odd head size, and as many buckets as the published models have.
    "t5_uneven_stacks": dict(
        d_model=20, d_kv=5, num_heads=2, d_ff=28, num_layers=1, num_decoder_layers=3, vocab_size=53,
    ),
    "t5_one_head": dict(
        d_model=16, d_kv=16, num_heads=1, d_ff=20, num_layers=3, num_decoder_layers=1, vocab_size=41,
        relative_attention_num_buckets=6, relative_attention_max_distance=20,
    ),
    # Without a head in the file, as transformers 5 saves fresh models.
    "t5_tied_head": dict(
        d_model=16, d_kv=8, num_heads=2, d_ff=20, num_layers=1, num_decoder_layers=1, vocab_size=37,
    ),
    "mt5_tied_head": dict(
        model_type="mt5", d_model=16, d_kv=8, num_heads=2, d_ff=20, num_layers=1, num_decoder_layers=1, vocab_size=37,
    ),
}
TIED_HEADS = ("t5_tied_head", "mt5_tied_head")
# As the published files and transformers 4 say that the head is its own; the others as transformers 5 does.
OLD_STYLE_CONFIGS = ("t5_few_buckets",)
STANDARD_DEVIATIONS = {"shared": 1.0, "relative_attention_bias": 0.5}  # of all other matrices: 0.25
LORA_BASE = "t5_few_buckets"
ADAPTERS = {
    "t5_lora": dict(target_modules=["q", "k", "v", "o", "wi_0", "wi_1", "wo"]),
    "t5_lora_query_value": dict(target_modules=["q", "v"]),
}
# (buckets, largest distance, bidirectional)
BUCKETS = ((32, 128, True), (32, 128, False), (8, 11, True), (8, 11, False), (6, 20, True), (64, 1000, False))
LARGEST_BUCKETED_DISTANCE = 300


@contextlib.contextmanager
def full_double_precision():
    """The norm is the one place where T5's code falls back to float32."""

    def norm_forward(self, hidden):
        return self.weight * (hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    norms = (modeling_t5.T5LayerNorm, modeling_mt5.MT5LayerNorm)
    originals = [norm.forward for norm in norms]
    for norm in norms:
        norm.forward = norm_forward
    try:
        yield
    finally:
        for norm, original in zip(norms, originals):
            norm.forward = original


def make_batch(seed, vocab_size):
    """Sequences as snug feeds them: what the encoder reads, what the decoder reads, what it is to predict."""
    rng = random.Random(seed)
    batch = []
    for source_length, target_length in zip(SOURCE_LENGTHS, TARGET_LENGTHS):
        source = [rng.randrange(vocab_size) for _ in range(source_length)]
        answer = [rng.randrange(2, vocab_size) for _ in range(target_length)]
        batch.append({"source": source, "ids": [START] + answer[:-1], "targets": answer})
    return batch


def padded(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def mean_loss(model, sequences):
    """By transformers' own road: labels in, shifted there, ignored where padded; the encoder's padding masked."""
    sources = [sequence["source"] for sequence in sequences]
    mask = padded([[1] * len(source) for source in sources], 0)
    labels = padded([sequence["targets"] for sequence in sequences], IGNORED)
    return model(input_ids=padded(sources, 0), attention_mask=mask, labels=labels).loss


def loss_and_gradients(model, sequences):
    model.zero_grad(set_to_none=True)
    loss = mean_loss(model, sequences)
    loss.backward()
    gradients = {saved_name(n): p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}
    return loss.item(), gradients


def greedy(model, source):
    ids, smallest_lead = [START], float("inf")
    with torch.no_grad():
        for _ in range(GENERATED_TOKENS):
            logits = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([ids])).logits[0, -1]
            best, second = torch.topk(logits, 2)[0].tolist()
            smallest_lead = min(smallest_lead, best - second)
            ids.append(int(logits.argmax()))
    return ids[1:], smallest_lead


def make_generation(model, seed, vocab_size):
    """Greedy text for the random source, of 40, that gives the most varied text without a near tie or an end."""
    rng = random.Random(seed)
    best = None
    for _ in range(40):
        source = [rng.randrange(vocab_size) for _ in range(7)]
        generated, lead = greedy(model, source)
        if EOS not in generated and lead > 1e-3 and (best is None or len(set(generated)) > len(set(best["generated"]))):
            best = {"source": source, "prompt": [START], "generated": generated, "smallest_lead": lead}
    assert best is not None, "every source led to a near tie or to the end token"
    return best


def write_case(folder, load, sequences, seed):
    """Reference values in float64, and a look at how far the untouched float32 code is from them."""
    model = load(torch.float64)
    with full_double_precision():
        loss, gradients = loss_and_gradients(model, sequences)
        generation = make_generation(model, seed, model.config.vocab_size)
    write_json(folder / "batch.json", {"sequences": sequences})
    write_json(folder / "expected.json", {"loss": loss, "target_tokens": count_targets(sequences)})
    write_json(folder / "generation.json", generation)
    save_tensors(folder / "gradients.safetensors", gradients)
    single_loss, single = loss_and_gradients(load(torch.float32), sequences)
    worst = max(((single[name].double() - g).norm() / g.norm()).item() for name, g in gradients.items())
    assert abs(single_loss - loss) < 1e-5, (folder.name, single_loss, loss)
    return worst


def rewrite_config_in_old_style(path):
    config = json.loads(path.read_text())
    del config["scale_decoder_outputs"]
    config["tie_word_embeddings"] = False
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(dict(sorted(config.items())), indent=2) + "\n")


def make_model_case(output, case, seed):
    torch.manual_seed(seed)
    settings = {"model_type": "t5", **MODELS[case]}
    config = AutoConfig.for_model(
        **settings, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=START,
        pad_token_id=START, eos_token_id=EOS,
    )
    model = AutoModelForSeq2SeqLM.from_config(config)
    # transformers 5 ties the head of a fresh model; the published ones have their own, and stay so when loaded.
    if case not in TIED_HEADS:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
            else:
                parameter.normal_(std=STANDARD_DEVIATIONS.get(name.split(".")[-2], 0.25))
    folder = output / case
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if case in OLD_STYLE_CONFIGS:
        rewrite_config_in_old_style(folder / "config.json")

    def load(dtype):
        return AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype).eval()

    return write_case(folder, load, make_batch(seed + 1, config.vocab_size), seed + 2)


def make_adapter_case(output, case, seed):
    torch.manual_seed(seed)
    base_folder = output / LORA_BASE
    config = LoraConfig(r=3, lora_alpha=5, lora_dropout=0.0, task_type="SEQ_2_SEQ_LM", **ADAPTERS[case])
    model = get_peft_model(T5ForConditionalGeneration.from_pretrained(base_folder), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.2 if "lora_A" in name else 0.1)
    model.peft_config["default"].base_model_name_or_path = f"../{LORA_BASE}"
    folder = output / case / "initial_adapter"
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    saved = json.loads((folder / "adapter_config.json").read_text())
    saved["target_modules"].sort()
    (folder / "adapter_config.json").write_text(json.dumps(saved, indent=2) + "\n")

    def load(dtype):
        base = T5ForConditionalGeneration.from_pretrained(base_folder, dtype=dtype)
        return PeftModel.from_pretrained(base, folder, is_trainable=True).to(dtype).eval()

    return write_case(output / case, load, make_batch(seed + 1, model.config.vocab_size), seed + 2)


def write_buckets(output):
    distances = torch.arange(-LARGEST_BUCKETED_DISTANCE, LARGEST_BUCKETED_DISTANCE + 1)
    rows = []
    for buckets, largest, bidirectional in BUCKETS:
        values = modeling_t5.T5Attention._relative_position_bucket(distances, bidirectional, buckets, largest)
        rows.append({"buckets": buckets, "max_distance": largest, "bidirectional": bidirectional,
                     "of_distances": values.tolist()})
    write_json(output / "t5_buckets.json", {"first_distance": -LARGEST_BUCKETED_DISTANCE, "cases": rows})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--only", nargs="*", help="the cases to make anew; default: all")
    arguments = parser.parse_args()
    output = arguments.output
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    write_buckets(output)
    makers = [(case, make_model_case) for case in MODELS if case not in TIED_HEADS]
    makers += [(case, make_adapter_case) for case in ADAPTERS] + [(case, make_model_case) for case in TIED_HEADS]
    for number, (case, make) in enumerate(makers, start=50):
        if arguments.only is not None and case not in arguments.only:
            continue
        worst, seed = 1.0, 100 * number
        # Softmax over few keys can cancel so far that float32 cannot say anything; take a case where it can.
        while worst > WORST_FLOAT32:
            shutil.rmtree(output / case, ignore_errors=True)
            worst = make(output, case, seed)
            seed += 10
        print(f"{case}: float32 differs by {worst:.1e} at most")


if __name__ == "__main__":
    main()
