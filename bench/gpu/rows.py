#!/usr/bin/env python3
"""Speed on real rows, whose lengths change, beside rows that fill every micro-batch, by `snug train` as people run it.

    rows.py --tokenizers FOLDER --texts FOLDER [--snug build/cuda/snug] [--work build/rows] [case...]

Models have random weights at the published shapes (`snug synth`) and the tokenizer of FOLDER/NAME (tokenizer.json, or .gz);
CASES says which files of rows each case reads. "full rows": the same texts laid end to end, so that every row is cut at the
recipe's length. Rates are of the second half of the steps.
"""

import argparse
import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2] / "recipes" / "cases"
STEPS = 40
FULL_STEPS = 6


def instruction_text(row):
    return "\n".join(part for part in (row["instruction"], row.get("input", "")) if part)


# What a row of the file is as a pair, and the recipe with what differs from it.
CASES = {
    "vietnamese": {
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "tokenizer": "qwen2.5",
        "rows": "vietnamese-alpaca-2k.jsonl.gz",
        "pair": lambda row: (row["prompt"], row["response"]),
        "recipe": "parsing.yml",
        "settings": [],
    },
    "packed": {
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "tokenizer": "qwen2.5",
        "rows": "vietnamese-alpaca-2k.jsonl.gz",
        "pair": lambda row: (row["prompt"], row["response"]),
        "recipe": "parsing.yml",
        "settings": ["data.packing=true", "training.gradient_accumulation_steps=1"],
    },
    "recipes": {
        "model": "google/flan-t5-xl",
        "tokenizer": "t5",
        "rows": "recipes-3k.jsonl.gz",
        "pair": lambda row: (f"Write a recipe for {row['title']} with: " + ", ".join(row["ingredients"]), " ".join(row["directions"])),
        "recipe": "recipe_writing.yml",
        "settings": ["training.optimizer_states=bf16"],
    },
    "instructions": {
        "model": "mistralai/Mistral-7B-Instruct-v0.3",
        "tokenizer": "mistral-v0.3",
        "rows": "gsm8k-alpaca-format.json.gz",
        "pair": lambda row: (instruction_text(row), row["output"]),
        "recipe": "security.yml",
        "settings": ["memory.limit=47.5GiB"],
    },
}


def read_rows(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        text = file.read()
    return json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line]


def write_rows(path, pairs):
    with open(path, "w", encoding="utf-8") as file:
        for prompt, completion in pairs:
            file.write(json.dumps({"prompt": prompt, "completion": completion}, ensure_ascii=False) + "\n")


def full_pairs(pairs, count):
    """A few texts as a prompt, and more than any recipe's length to learn, each beginning with another row."""
    texts = [f"{prompt} {completion} " for prompt, completion in pairs]
    for i in range(count):
        some = [texts[(i * 7 + j) % len(texts)] for j in range(155)]
        yield "".join(some[:5]), "".join(some[5:])


def make_model(snug, case, tokenizers, work):
    folder = work / case["model"].replace("/", "_")
    if not (folder / "config.json").exists():
        subprocess.run([snug, "synth", case["model"], folder], check=True, stdout=subprocess.DEVNULL)
        source = tokenizers / case["tokenizer"]
        for old in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            (folder / old).unlink(missing_ok=True)
        for file in source.iterdir():
            if file.name == "tokenizer.json.gz":
                (folder / "tokenizer.json").write_bytes(gzip.decompress(file.read_bytes()))
            else:
                shutil.copy(file, folder / file.name)
    return folder


def stage_less(recipe):
    """A recipe of stages as its first one: the stages, and what they keep, begin at the line "stages:"."""
    return re.split(r"(?m)^stages:", recipe)[0]


def train(snug, case, model, rows, work, name, settings):
    recipe = work / f"{name}.yml"
    recipe.write_text(stage_less((RECIPES / case["recipe"]).read_text(encoding="utf-8")), encoding="utf-8")
    settings = [
        f"model.path={model}", f"data.train_file={rows}", "data.eval_file=null", "training.save_strategy=no", "training.eval_steps=0", "training.warmup_steps=0",
        "training.load_best_model_at_end=false", "logging.logging_steps=1", f"output_dir={work / ('run_' + name)}", *settings,
    ]  # fmt: skip
    command = [snug, "train", recipe, "--overwrite"]
    for setting in settings:
        command += ["--set", setting]
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ran.returncode != 0:
        print(ran.stdout[-1500:], ran.stderr[-1500:], file=sys.stderr)
        raise SystemExit(f"rows.py: {name} ended with {ran.returncode}")
    lines = (work / f"run_{name}" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    (work / f"{name}.log").write_text(ran.stdout, encoding="utf-8")
    summary = json.loads((work / f"run_{name}" / "summary.json").read_text(encoding="utf-8"))
    shutil.rmtree(work / f"run_{name}")  # the result of full fine-tuning is as large as the model
    return [json.loads(line) for line in lines if '"loss"' in line], summary


def rate(metrics, first, last):
    """Tokens a second from behind row `first` to row `last`, by the rows' own times."""
    tokens = metrics[last]["tokens"] - metrics[first]["tokens"]
    return tokens / (metrics[last]["time"] - metrics[first]["time"])


def report(name, metrics, summary):
    last = len(metrics) - 1
    steady = rate(metrics, last // 2, last)
    per_step = metrics[last]["tokens"] / (last + 1)
    print(
        f"{name:24} {steady:9,.0f} tokens/s; steps 2 to 20 {rate(metrics, 0, min(19, last)):9,.0f}; {per_step:7,.0f} tokens a step; "
        f"{summary['planned_bytes']:,} bytes planned, {summary['allocated_bytes']:,} allocated",
        flush=True,
    )
    return steady


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--snug", default="build/cuda/snug")
    parser.add_argument("--tokenizers", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/rows"))
    parser.add_argument("cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    for name in arguments.cases:
        if name not in CASES:
            parser.error(f'no case "{name}"; there are {", ".join(CASES)}')
    arguments.work.mkdir(parents=True, exist_ok=True)
    for name in arguments.cases:
        case = CASES[name]
        snug, work = arguments.snug, arguments.work.resolve()
        model = make_model(snug, case, arguments.tokenizers, work)
        pairs = [case["pair"](row) for row in read_rows(arguments.texts / case["rows"])]
        rows = work / f"{name}.jsonl"
        write_rows(rows, pairs)
        settings = [*case["settings"], f"training.max_steps={STEPS}"]
        steady = report(name, *train(snug, case, model, rows, work, name, settings))
        write_rows(rows, full_pairs(pairs, 1000))
        settings = [*case["settings"], f"training.max_steps={FULL_STEPS}", "data.packing=false"]
        ceiling = report(f"{name}, full rows", *train(snug, case, model, rows, work, f"{name}_full", settings))
        print(f"{name}: {100 * steady / ceiling:.1f}% of full rows", flush=True)


if __name__ == "__main__":
    main()
