#!/usr/bin/env python3
"""What small formats cost in quality: the tables of docs/formats.md.

    python3 tools/make_corpus.py                  # the stories
    python3 bench/quality.py [--snug build/release/snug] [--models FOLDER] [--jobs 8] [--seeds 5]

Each model is evaluated on stories as it is loaded, and on ship's logs after the same LoRA fine-tune, with its weights in
each format; then all weights of the embedded model are trained with the optimizer's states in each format. Fine-tunes
are repeated with several seeds: the order of rounding alone moves their losses by about 1%. --models is a folder with
tinystories-656k (Hugging Face's files) and stories260K (llama2.c's), both optional. Needs Python's standard library only.
"""

import argparse
import array
import json
import os
import shutil
import statistics
import struct
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORMATS = {
    "fp32": {"dtype": "fp32"},
    "bf16": {"dtype": "bf16"},
    "int8": {"dtype": "bf16", "quantization": "int8"},
    "nf4": {"dtype": "bf16", "quantization": "nf4"},
    "nf4_double": {"dtype": "bf16", "quantization": "nf4_double"},
    "fp4": {"dtype": "bf16", "quantization": "fp4"},
}
STATES = ["fp32", "bf16", "8bit"]


def take(values, count):
    taken, values[:] = values[:count], values[count:]
    return taken


def with_halves(pairs, head_dim, columns):
    """llama2.c rotates neighbouring pairs of a head; Hugging Face its first half with its second."""
    halves = array.array("f", pairs)
    for row in range(len(pairs) // columns):
        within = row % head_dim
        target = row - within + (within % 2) * head_dim // 2 + within // 2
        halves[target * columns:(target + 1) * columns] = pairs[row * columns:(row + 1) * columns]
    return halves


def convert_llama2c(source, tokenizer, folder):
    """Writes llama2.c's one file as a folder of Hugging Face's."""
    raw = source.read_bytes()
    width, inner, layers, heads, kv_heads, vocabulary, positions = struct.unpack("7i", raw[:28])
    values = array.array("f", raw[28:])
    head_dim = width // heads
    kv_width = kv_heads * head_dim
    tensors = {"model.embed_tokens.weight": ([vocabulary, width], take(values, vocabulary * width))}
    kinds = [("input_layernorm", [width]), ("self_attn.q_proj", [width, width]),
             ("self_attn.k_proj", [kv_width, width]), ("self_attn.v_proj", [kv_width, width]),
             ("self_attn.o_proj", [width, width]), ("post_attention_layernorm", [width]),
             ("mlp.gate_proj", [inner, width]), ("mlp.down_proj", [width, inner]),
             ("mlp.up_proj", [inner, width])]
    for kind, shape in kinds:
        for layer in range(layers):
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            taken = take(values, count)
            if kind.endswith(("q_proj", "k_proj")):
                taken = with_halves(taken, head_dim, width)
            tensors[f"model.layers.{layer}.{kind}.weight"] = (shape, taken)
    tensors["model.norm.weight"] = ([width], take(values, width))
    header, blobs, offset = {}, [], 0
    for name, (shape, data) in tensors.items():
        blob = data.tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width,
              "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
              "num_key_value_heads": kv_heads, "vocab_size": vocabulary, "max_position_embeddings": positions,
              "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2,
              "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(tokenizer, folder / "tokenizer.model")


def pairs_of(source, target):
    """The rows of a chat as prompt and completion: these models have no chat template."""
    with open(source, encoding="utf-8") as rows, open(target, "w", encoding="utf-8") as file:
        for row in rows:
            turns = json.loads(row)["messages"]
            file.write(json.dumps({"prompt": turns[0]["content"] + "\n", "completion": turns[1]["content"]}) + "\n")


class Bench:
    def __init__(self, snug, folder, threads):
        self.snug, self.folder = snug, folder
        self.environment = dict(os.environ, SNUG_THREADS=str(threads))
        for part in ["train", "eval"]:
            pairs_of(ROOT / f"recipes/data/ship_log_{part}.jsonl", folder / f"logs_{part}.jsonl")

    def evaluation_loss(self, name, recipe):
        recipe = dict(recipe, output_dir=str(self.folder / "runs" / name))
        path = self.folder / f"{name}.yml"  # JSON is YAML
        path.write_text(json.dumps(recipe))
        done = subprocess.run([self.snug, "train", path, "--device", "cpu", "--json"], env=self.environment,
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{name}: {done.stderr.strip()}")
        return json.loads(done.stdout)["evaluations"][-1]["eval_loss"]

    def after_load(self, model, weights):
        stories = str(ROOT / "recipes/data/stories_eval.jsonl")
        return self.evaluation_loss(
            f"load-{model.name}-{weights}",
            {"model": dict(FORMATS[weights], path=str(model)), "lora": {},
             "data": {"train_file": stories, "eval_file": stories, "max_length": 320},
             # A rate that moves no weight: lora_B stays 0 to any digit that is shown.
             "training": {"max_steps": 1, "learning_rate": 1e-30, "save_strategy": "no"}})

    def after_training(self, model, weights, seed):
        return self.evaluation_loss(
            f"lora-{model.name}-{weights}-{seed}",
            {"model": dict(FORMATS[weights], path=str(model)),
             "lora": {"r": 16, "lora_alpha": 32, "lora_dropout": 0.05, "target_modules": "all-linear"},
             "data": self.logs(), "training": self.training(4e-3, seed)})

    def with_states(self, model, dtype, states, seed):
        return self.evaluation_loss(
            f"full-{dtype}-{states}-{seed}",
            {"model": {"path": str(model), "dtype": dtype}, "data": self.logs(),
             "training": dict(self.training(5e-4, seed), optimizer_states=states)})

    def logs(self):
        return {"train_file": str(self.folder / "logs_train.jsonl"), "eval_file": str(self.folder / "logs_eval.jsonl"),
                "max_length": 192}

    @staticmethod
    def training(rate, seed):
        return {"num_train_epochs": 4, "per_device_train_batch_size": 8, "learning_rate": rate,
                "lr_scheduler_type": "cosine", "warmup_ratio": 0.0625, "weight_decay": 0.01, "max_grad_norm": 1.0,
                "seed": seed, "save_strategy": "no"}


def told(values, base):
    mean = statistics.mean(values)
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{mean:.4f}{spread} ({(mean / base - 1) * 100:+.1f}%)"


def print_table(title, columns, rows):
    print(f"\n{title}\n\n| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name, cells in rows:
        base = statistics.mean(cells[0])
        print(f"| {name} | {' | '.join(told(cell, base) for cell in cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snug", default=str(ROOT / "build/release/snug"))
    parser.add_argument("--models", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    embedded = ROOT / "models/tiny-story"
    seeds = range(1, arguments.seeds + 1)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(arguments.jobs) as pool:
        folder = Path(temporary)
        models = [embedded]
        if arguments.models:
            models.append(arguments.models / "tinystories-656k")
            llama2c = arguments.models / "stories260K"
            convert_llama2c(llama2c / "stories260K.bin", llama2c / "tok512.model", folder / "stories260K")
            models.append(folder / "stories260K")
        bench = Bench(arguments.snug, folder, max(1, os.cpu_count() // arguments.jobs))
        loads = {m: [pool.submit(bench.after_load, m, f) for f in FORMATS] for m in models}
        tunes = {m: [[pool.submit(bench.after_training, m, f, s) for s in seeds] for f in FORMATS] for m in models}
        states = {d: [[pool.submit(bench.with_states, embedded, d, t, s) for s in seeds] for t in STATES]
                  for d in ["bf16", "fp32"]}
        results = lambda futures: [[one.result() for one in cell] for cell in futures]
        print_table("As loaded, loss on stories:", FORMATS, [(m.name, [[f.result()] for f in loads[m]]) for m in models])
        print_table("After LoRA, loss on ship's logs:", FORMATS, [(m.name, results(tunes[m])) for m in models])
        print_table("All weights trained, by the format of the states:", STATES, [(d, results(states[d])) for d in states])


if __name__ == "__main__":
    main()
