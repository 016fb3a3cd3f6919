#!/usr/bin/env python3
"""Writes the reference values that snug's mathematics is tested against, from transformers and PEFT.

    pip install -r tools/requirements-dev.txt
    python tools/make_references.py

Each folder below tests/goldens/references/ is one case: a tiny random model or an adapter on one, a batch, and
the loss, gradients and text that Hugging Face's code gives for them. Everything is computed in float64 and stored
as float32, so that the reference has next to no error of its own; the same values are computed once more by the
untouched float32 code, and the script fails if the two disagree by more than float32 explains.
"""

import argparse
import contextlib
import json
import random
import shutil
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM, get_linear_schedule_with_warmup
from transformers.models.llama import modeling_llama
from transformers.models.ministral import modeling_ministral
from transformers.models.mistral import modeling_mistral
from transformers.models.phi3 import modeling_phi3
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

REPOSITORY = Path(__file__).resolve().parent.parent
DEFAULT_OUTPUT = REPOSITORY / "tests" / "goldens" / "references"
IGNORED = -100
EOS = 2
GENERATED_TOKENS = 20
SEQUENCE_LENGTHS = (7, 1, 12, 5)  # the one of a single token has nothing to predict
PROMPT_LENGTHS = (3, 1, 5, 1)  # their tokens are read but never predicted

PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
# Keyword arguments of the config; model_type is "llama" where it is not given.
MODELS = {
    "gqa_untied": dict(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=56,
        vocab_size=67, tie_word_embeddings=False, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    ),
    "mha_tied": dict(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=3, num_hidden_layers=1, intermediate_size=40,
        vocab_size=101, tie_word_embeddings=True, rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    ),
    "gqa_tied_headdim": dict(
        hidden_size=40, num_attention_heads=2, num_key_value_heads=1, head_dim=16, num_hidden_layers=3,
        intermediate_size=36, vocab_size=53, tie_word_embeddings=True, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    ),
    "llama_biases": dict(
        hidden_size=20, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=1, intermediate_size=28,
        vocab_size=41, tie_word_embeddings=False, attention_bias=True, mlp_bias=True, rope_parameters=PLAIN_ROPE,
    ),
    "llama_linear_rope": dict(
        hidden_size=24, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=2, intermediate_size=32,
        vocab_size=43, tie_word_embeddings=False,
        rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
    ),
    "llama3_rope": dict(
        hidden_size=32, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=24,
        vocab_size=47, tie_word_embeddings=True,
        rope_parameters={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 16, "rope_theta": 500.0},
    ),
    "qwen2_tied": dict(
        model_type="qwen2", hidden_size=28, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=2,
        intermediate_size=44, vocab_size=71, tie_word_embeddings=True, rope_parameters=PLAIN_ROPE,
    ),
    "qwen2_untied_window": dict(
        model_type="qwen2", hidden_size=24, num_attention_heads=3, num_key_value_heads=3, num_hidden_layers=2,
        intermediate_size=20, vocab_size=37, tie_word_embeddings=False, rope_parameters=PLAIN_ROPE,
        use_sliding_window=True, sliding_window=3, max_window_layers=1,
    ),
    "qwen3_head_norms": dict(
        model_type="qwen3", hidden_size=20, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
        num_hidden_layers=2, intermediate_size=26, vocab_size=59, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    ),
    "mistral_window": dict(
        model_type="mistral", hidden_size=32, num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=2,
        intermediate_size=36, vocab_size=61, tie_word_embeddings=False, sliding_window=4, rope_parameters=PLAIN_ROPE,
    ),
    "mistral_head_dim": dict(
        model_type="mistral", hidden_size=24, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
        num_hidden_layers=1, intermediate_size=36, vocab_size=83, tie_word_embeddings=False, sliding_window=None,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    ),
    "phi3_fused": dict(
        model_type="phi3", hidden_size=24, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=2,
        intermediate_size=28, vocab_size=47, tie_word_embeddings=False, sliding_window=5, pad_token_id=None,
        rope_parameters=PLAIN_ROPE,
    ),
    "qwen3_tied_one_layer": dict(
        model_type="qwen3", hidden_size=18, num_attention_heads=3, num_key_value_heads=3, head_dim=8,
        num_hidden_layers=1, intermediate_size=22, vocab_size=73, tie_word_embeddings=True, rope_parameters=PLAIN_ROPE,
    ),
    "phi3_one_layer": dict(
        model_type="phi3", hidden_size=20, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=1,
        intermediate_size=30, vocab_size=89, tie_word_embeddings=False, sliding_window=None, pad_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": 250000.0},
    ),
    # With Hugging Face's default wherever the size allows it; the config.json leaves those keys out.
    "mistral_left_out": dict(
        model_type="mistral", hidden_size=32, num_attention_heads=8, num_hidden_layers=1, intermediate_size=20,
        vocab_size=43,
    ),
    "phi3_left_out": dict(
        model_type="phi3", hidden_size=20, num_attention_heads=2, num_hidden_layers=2, intermediate_size=30,
        vocab_size=37, pad_token_id=None,
    ),
    # A Mistral that alternates between windows and full attention.
    "mistral_layer_types": dict(
        model_type="ministral", hidden_size=24, num_attention_heads=2, num_key_value_heads=1, head_dim=12, num_hidden_layers=3,
        intermediate_size=28, vocab_size=41, sliding_window=3, rope_parameters=PLAIN_ROPE,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    # The config says that the head is the embedding; the file holds another one.
    "llama_own_head": dict(
        hidden_size=20, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=1, intermediate_size=28,
        vocab_size=47, tie_word_embeddings=False, rope_parameters=PLAIN_ROPE,
    ),
}


def leave_out_defaults(config):
    """A config.json as short as it can be: without "architectures", and without what the config class says anyway."""
    usual = CONFIG_MAPPING[config["model_type"]]().to_dict()
    usual["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    kept = {key: value for key, value in config.items() if key == "model_type" or usual.get(key, ...) != value}
    for key in ("architectures", "head_dim", "num_key_value_heads", "rope_parameters"):
        kept.pop(key, None)
    return kept


# What is done to a config.json after it was saved.
CONFIG_EDITS = {
    "mistral_left_out": leave_out_defaults,
    "phi3_left_out": leave_out_defaults,
    "mistral_layer_types": lambda config: {**config, "model_type": "mistral", "architectures": ["MistralForCausalLM"]},
    "llama_own_head": lambda config: {**config, "tie_word_embeddings": True},
}
# Saved the way transformers 4 did (rope_theta, torch_dtype); the others as transformers 5 does (rope_parameters).
OLD_STYLE_CONFIGS = ("mha_tied",)

ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "lora": dict(target_modules=ALL_LINEAR, use_rslora=False),
    "lora_rslora": dict(target_modules=ALL_LINEAR, use_rslora=True),
    "lora_query_value": dict(target_modules=["q_proj", "v_proj"], use_rslora=False),
    "lora_all_biases": dict(base="llama_biases", target_modules=["q_proj", "down_proj"], bias="all"),
    "lora_own_biases": dict(base="qwen2_tied", target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], bias="lora_only"),
    "lora_patterns": dict(
        target_modules=ALL_LINEAR, exclude_modules=["layers.0.self_attn.k_proj", "up_proj"], use_rslora=True,
        rank_pattern={"model.layers.1.self_attn.q_proj": 3, r"v_proj|layers\.0\.self_attn\.q_proj": 2, r"layers\.\d+\.mlp\.down_proj": 5},
        alpha_pattern={"v_proj": 20, "o_proj": 3.5},
    ),
    "lora_expressions": dict(
        target_modules=r".*\.(q|k|v|gate)_proj", exclude_modules=r"model\.layers\.1\.self_attn\.[kv]_proj",
    ),
}
LORA_BASE = "gqa_untied"
TRAINING = dict(
    steps=20, warmup_steps=3, learning_rate=1e-2, adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8,
    weight_decay=0.01, max_grad_norm=1.0, lr_scheduler_type="linear", gradient_accumulation_steps=2,
)


FLOAT32_NORMS = (
    modeling_llama.LlamaRMSNorm, modeling_mistral.MistralRMSNorm, modeling_phi3.Phi3RMSNorm, modeling_qwen2.Qwen2RMSNorm,
    modeling_qwen3.Qwen3RMSNorm, modeling_ministral.MinistralRMSNorm,
)
FLOAT32_ROPES = (
    modeling_llama.LlamaRotaryEmbedding, modeling_mistral.MistralRotaryEmbedding, modeling_phi3.Phi3RotaryEmbedding,
    modeling_qwen2.Qwen2RotaryEmbedding, modeling_qwen3.Qwen3RotaryEmbedding,
    modeling_ministral.MinistralRotaryEmbedding,
)


@contextlib.contextmanager
def full_double_precision():
    """Make the two places where transformers' models fall back to float32 keep float64 instead."""

    def norm_forward(self, hidden):
        variance = hidden.pow(2).mean(-1, keepdim=True)
        return self.weight * (hidden * torch.rsqrt(variance + self.variance_epsilon))

    def rope_forward(self, hidden, position_ids):
        head_dim = 2 * self.inv_freq.numel()
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        frequencies = 1.0 / (self.config.rope_parameters["rope_theta"] ** exponents)
        if self.config.rope_parameters["rope_type"] != "default":
            frequencies = self.inv_freq.double()  # scaled by transformers' own code, once, in float32
        angles = position_ids[..., None].double() * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    patches = [(norm, norm_forward) for norm in FLOAT32_NORMS] + [(rope, rope_forward) for rope in FLOAT32_ROPES]
    originals = [(cls, cls.forward) for cls, _ in patches]
    for cls, forward in patches:
        cls.forward = forward
    try:
        yield
    finally:
        for cls, forward in originals:
            cls.forward = forward


def write_json(path, value):
    """JSON with one line for each innermost list or object, so that differences stay readable."""
    text = json.dumps(value, indent=1)
    lines, open_line = [], None
    for line in text.split("\n"):
        stripped = line.strip()
        if open_line is not None and not stripped.endswith(("[", "{")):
            open_line += stripped if stripped[0] in "]}" else stripped + (" " if stripped.endswith(",") else "")
            if stripped[0] in "]}":
                lines.append(open_line)
                open_line = None
            continue
        if open_line is not None:
            lines.append(open_line)
        open_line = line if stripped.endswith(("[", "{")) else None
        if open_line is None:
            lines.append(line)
    path.write_text("".join(line.rstrip() + "\n" for line in lines))


def make_sequence(rng, vocab_size, length, prompt_length):
    """One sequence: ids, and for each position the id to predict there or IGNORED."""
    ids = [rng.randrange(vocab_size) for _ in range(length)]
    targets = [ids[i + 1] if i + 1 >= prompt_length else IGNORED for i in range(length - 1)] + [IGNORED]
    return {"ids": ids, "targets": targets}


def make_batch(seed, vocab_size):
    rng = random.Random(seed)
    return [make_sequence(rng, vocab_size, n, p) for n, p in zip(SEQUENCE_LENGTHS, PROMPT_LENGTHS)]


def count_targets(sequences):
    return sum(target != IGNORED for sequence in sequences for target in sequence["targets"])


def token_losses(model, sequences):
    """Cross entropy at every position of the batch padded on the right (sequences, longest); 0 where ignored."""
    longest = max(len(sequence["ids"]) for sequence in sequences)
    ids = torch.zeros(len(sequences), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    targets = torch.full_like(ids, IGNORED)
    for row, sequence in enumerate(sequences):
        length = len(sequence["ids"])
        ids[row, :length] = torch.tensor(sequence["ids"])
        mask[row, :length] = 1
        targets[row, :length] = torch.tensor(sequence["targets"])
    logits = model(input_ids=ids, attention_mask=mask).logits
    losses = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none"
    )
    return losses


def loss_and_gradients(model, sequences):
    """The mean loss over all targets, the loss of each position, and every trainable parameter's gradient."""
    model.zero_grad(set_to_none=True)
    losses = token_losses(model, sequences)
    loss = losses.sum() / count_targets(sequences)
    loss.backward()
    gradients = {saved_name(n): p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}
    per_token = [
        [value if target != IGNORED else None for value, target in zip(row.tolist(), sequence["targets"])]
        for row, sequence in zip(losses.detach(), sequences)
    ]
    return loss.item(), per_token, gradients


def saved_name(name):
    """PEFT leaves the adapter's own name out of the names in its files."""
    return name.replace(".default.", ".")


def save_tensors(path, tensors):
    save_file({n: t.detach().float().contiguous() for n, t in sorted(tensors.items())}, path, metadata={"format": "pt"})


def check_against_float32(case, model, sequences, expected):
    """The untouched float32 code must agree with the float64 reference up to float32's own rounding."""
    loss, _, gradients = loss_and_gradients(model, sequences)
    expected_loss, _, expected_gradients = expected
    assert abs(loss - expected_loss) < 1e-5, (case, loss, expected_loss)
    worst = 0.0
    for name, gradient in gradients.items():
        reference = expected_gradients[name]
        worst = max(worst, ((gradient.double() - reference).norm() / reference.norm()).item())
    assert worst < 2e-5, (case, worst)
    return worst


def greedy(model, prompt):
    """The likeliest token again and again, and the smallest lead it ever had over the second."""
    ids, smallest_lead = list(prompt), float("inf")
    with torch.no_grad():
        for _ in range(GENERATED_TOKENS):
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
            best, second = torch.topk(logits, 2)[0].tolist()
            smallest_lead = min(smallest_lead, best - second)
            ids.append(int(logits.argmax()))
    return ids[len(prompt):], smallest_lead


def make_generation(model, seed, vocab_size):
    """Greedy text from the random prompt, of 40, that gives the most varied text without a near tie or an end."""
    rng = random.Random(seed)
    best = None
    for _ in range(40):
        prompt = [rng.randrange(vocab_size) for _ in range(6)]
        generated, lead = greedy(model, prompt)
        if EOS not in generated and lead > 1e-3 and (best is None or len(set(generated)) > len(set(best["generated"]))):
            best = {"prompt": prompt, "generated": generated, "smallest_lead": lead}
    assert best is not None, "every prompt led to a near tie or to the end token"
    return best


def write_case(folder, model, sequences, expected, generation_seed):
    loss, per_token, gradients = expected
    write_json(folder / "batch.json", {"sequences": sequences})
    write_json(
        folder / "expected.json",
        {"loss": loss, "target_tokens": count_targets(sequences), "token_losses": per_token},
    )
    save_tensors(folder / "gradients.safetensors", gradients)
    write_json(folder / "generation.json", make_generation(model, generation_seed, model.config.vocab_size))


def rewrite_config_in_old_style(path):
    config = json.loads(path.read_text())
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["rope_scaling"] = None
    config["torch_dtype"] = config.pop("dtype")
    del config["head_dim"]
    path.write_text(json.dumps(dict(sorted(config.items())), indent=2) + "\n")


def make_model(output, case, seed):
    """A random model with norm weights away from 1, saved as a Hugging Face folder."""
    torch.manual_seed(seed)
    settings = {"model_type": "llama", **MODELS[case]}
    config = AutoConfig.for_model(
        **settings, max_position_embeddings=64, bos_token_id=1, eos_token_id=EOS, attn_implementation="sdpa"
    )
    model = AutoModelForCausalLM.from_config(config)
    # A tied embedding must stay small beside the layers, or the model only ever repeats its input.
    embedding_std, linear_std = (0.1, 0.25) if config.tie_word_embeddings else (0.3, 0.1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
            else:
                parameter.normal_(std=embedding_std if "embed" in name else linear_std)
    folder = output / case
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if case in OLD_STYLE_CONFIGS:
        rewrite_config_in_old_style(folder / "config.json")
    if case in CONFIG_EDITS:
        config = CONFIG_EDITS[case](json.loads((folder / "config.json").read_text()))
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def load_model(output, case, dtype):
    return AutoModelForCausalLM.from_pretrained(output / case, dtype=dtype, attn_implementation="sdpa").eval()


def make_model_case(output, case, seed):
    make_model(output, case, seed)
    model = load_model(output, case, torch.float64)
    sequences = make_batch(seed + 1, model.config.vocab_size)
    with full_double_precision():
        expected = loss_and_gradients(model, sequences)
        write_case(output / case, model, sequences, expected, seed + 2)
    return check_against_float32(case, load_model(output, case, torch.float32), sequences, expected)


def make_adapter(output, case, seed):
    """An adapter whose B is not zero, so that every gradient of A has something to show."""
    torch.manual_seed(seed)
    settings = dict(ADAPTERS[case])
    base_case = settings.pop("base", LORA_BASE)
    base = load_model(output, base_case, torch.float32)
    config = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, task_type="CAUSAL_LM", **settings)
    model = get_peft_model(base, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.15 if "lora_A" in name else 0.05)
    model.peft_config["default"].base_model_name_or_path = f"../{base_case}"
    folder = output / case / "initial_adapter"
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config_path = folder / "adapter_config.json"
    saved = json.loads(config_path.read_text())
    for key in ("target_modules", "exclude_modules"):
        if isinstance(saved[key], list):
            saved[key].sort()
    config_path.write_text(json.dumps(saved, indent=2) + "\n")


def load_adapted(output, case, dtype):
    base = load_model(output, ADAPTERS[case].get("base", LORA_BASE), dtype)
    adapter = output / case / "initial_adapter"
    return PeftModel.from_pretrained(base, adapter, is_trainable=True).to(dtype).eval()


def make_adapter_case(output, case, seed):
    make_adapter(output, case, seed)
    model = load_adapted(output, case, torch.float64)
    sequences = make_batch(seed + 1, model.config.vocab_size)
    with full_double_precision():
        expected = loss_and_gradients(model, sequences)
        write_case(output / case, model, sequences, expected, seed + 2)
    return check_against_float32(case, load_adapted(output, case, torch.float32), sequences, expected)


def plan_steps(seed, vocab_size):
    """A small pool of sequences and, for each step, two micro-batches of unequal size drawn from it."""
    rng = random.Random(seed)
    pool = []
    for _ in range(9):
        length = rng.randrange(4, 13)
        pool.append(make_sequence(rng, vocab_size, length, rng.randrange(1, length - 1)))
    steps = []
    for _ in range(TRAINING["steps"]):
        chosen = rng.sample(range(len(pool)), 5)
        split = rng.randrange(1, 5)
        steps.append([chosen[:split], chosen[split:]])
    return pool, steps


def train(model, pool, steps):
    """The steps as transformers' Trainer takes them; returns what each step saw before its update."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters, lr=TRAINING["learning_rate"], betas=(TRAINING["adam_beta1"], TRAINING["adam_beta2"]),
        eps=TRAINING["adam_epsilon"], weight_decay=TRAINING["weight_decay"],
    )
    schedule = get_linear_schedule_with_warmup(optimizer, TRAINING["warmup_steps"], TRAINING["steps"])
    rows = []
    for micro_batches in steps:
        targets = sum(count_targets([pool[i] for i in batch]) for batch in micro_batches)
        optimizer.zero_grad()
        step_loss = 0.0
        for batch in micro_batches:
            loss = token_losses(model, [pool[i] for i in batch]).sum() / targets
            loss.backward()
            step_loss += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(parameters, TRAINING["max_grad_norm"]).item()
        learning_rate = schedule.get_last_lr()[0]
        optimizer.step()
        schedule.step()
        rows.append(
            {"micro_batches": micro_batches, "target_tokens": targets, "loss": step_loss, "grad_norm": norm,
             "learning_rate": learning_rate}
        )
    return rows


def make_training(output, case, seed):
    model = load_adapted(output, case, torch.float64)
    pool, steps = plan_steps(seed, model.config.vocab_size)
    with full_double_precision():
        rows = train(model, pool, steps)
    single = train(load_adapted(output, case, torch.float32), pool, steps)
    worst = max(abs(a["loss"] - b["loss"]) for a, b in zip(rows, single))
    assert worst < 1e-4, worst
    folder = output / case
    write_json(folder / "steps.json", {"settings": TRAINING, "sequences": pool, "steps": rows})
    final = {saved_name(n): p for n, p in model.named_parameters() if p.requires_grad}
    save_tensors(folder / "final_adapter.safetensors", final)
    return rows, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--only", nargs="*", help="the cases to make anew; default: all")
    arguments = parser.parse_args()
    output = arguments.output
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    def is_asked_for(case):
        return arguments.only is None or case in arguments.only

    for seed, case in zip((1, 2, 3, *range(20, 40)), MODELS):
        if not is_asked_for(case):
            continue
        shutil.rmtree(output / case, ignore_errors=True)
        print(f"{case}: float32 differs by {make_model_case(output, case, 100 * seed):.1e} at most")
    for seed, case in enumerate(ADAPTERS, start=10):
        if not is_asked_for(case):
            continue
        shutil.rmtree(output / case, ignore_errors=True)
        print(f"{case}: float32 differs by {make_adapter_case(output, case, 100 * seed):.1e} at most")
    if not is_asked_for("lora"):
        return
    rows, worst = make_training(output, "lora", 2000)
    print(f"lora: {rows[0]['loss']:.4f} -> {rows[-1]['loss']:.4f}, float32 differs by {worst:.1e} at most")


if __name__ == "__main__":
    main()
