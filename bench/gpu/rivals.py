#!/usr/bin/env python3
"""Other programs that fine-tune, on the cases of run.sh, where a person has installed them.

  rivals.py [--logs FOLDER] CASE...     cases: A B D D2 Q3 Q3R F7 F15 F05; --list says what each is
  rivals.py --self-test                             checks how command lines are made and logs are read; needs no card

Every run prints one line "PEER {json}", which table.py reads, and leaves all that the program said in
FOLDER/CASE-STACK.log (default: build/bench-logs), with the command at its top. A program that is not there is said, with
how it is installed. What it needs:
  MODELS            a folder of model folders (default build/rivals/models), named by the last part of their id; those that are missing are made by
                    `snug synth` (random weights). Surogate needs tokenizer.json in them: copy it from the model.
  UNSLOTH_PYTHON    the python that has unsloth (default python3)
  SUROGATE          the command (default surogate)
  LLMQ_TRAIN        LLMQ's build/train (default: train of the folder $LLMQ/build)
  SNUG              the snug that makes models (default build/cuda/snug)
Memory is what the driver counts for the whole card, looked at four times a second, less what was taken before.
"""

import argparse
import array
import json
import os
import random
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
LINEARS = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj".split()
WARM_UP = 3  # steps that are not counted
STEPS = 10

INSTALL = {
    "unsloth": "pip install unsloth into an environment of its own, and set UNSLOTH_PYTHON to its python",
    "surogate": "github.com/invergent-ai/surogate: its install.sh, or `uv pip install -e .` in a clone; then activate "
                "its environment, or set SUROGATE",
    "llmq": "github.com/IST-DASLab/llmq: cmake -S . -B build && cmake --build build --target train in a clone; then set "
            "LLMQ to the clone, or LLMQ_TRAIN to the program",
}


@dataclass
class Case:
    model: str
    batch: int
    length: int
    rank: int  # 0: all weights are trained
    stacks: tuple
    accumulate: int = 1
    recompute: bool = False
    four_bits: bool = False

    @property
    def step_tokens(self):
        return self.batch * self.length * self.accumulate

    @property
    def vocabulary(self):
        return 32768 if "mistral" in self.model else 152064 if "2.5-7B" in self.model else 151936


QWEN = "Qwen/Qwen2.5-7B-Instruct"
MISTRAL = "mistralai/Mistral-7B-Instruct-v0.3"
CASES = {
    "A": Case(QWEN, 4, 2048, 128, ("unsloth",)),
    "B": Case(QWEN, 4, 2048, 128, ("unsloth",), recompute=True),
    "D": Case(MISTRAL, 4, 1536, 16, ("unsloth", "surogate"), recompute=True, four_bits=True),
    "D2": Case(MISTRAL, 4, 1536, 16, ("unsloth",), four_bits=True),
    "Q3": Case("Qwen/Qwen3-8B", 2, 2048, 16, ("unsloth", "surogate"), accumulate=4),
    "Q3R": Case("Qwen/Qwen3-8B", 2, 2048, 16, ("unsloth", "surogate"), accumulate=4, recompute=True),
    "F7": Case(QWEN, 4, 1024, 0, ("llmq",), accumulate=8),
    "F15": Case("Qwen/Qwen2.5-1.5B-Instruct", 32, 1024, 0, ("llmq",), accumulate=4),
    "F05": Case("Qwen/Qwen2.5-0.5B-Instruct", 32, 1024, 0, ("llmq",), accumulate=4),
}


class Missing(Exception):
    """Something that a person has to provide."""


def program_of(stack):
    if stack == "unsloth":
        return os.environ.get("UNSLOTH_PYTHON", "python3")
    if stack == "surogate":
        return os.environ.get("SUROGATE", "surogate")
    return os.environ.get("LLMQ_TRAIN", os.path.join(os.environ.get("LLMQ", "llmq"), "build", "train"))


def unsloth_command(case, model, _work):
    command = [program_of("unsloth"), os.path.join(HERE, "rival_unsloth.py"), "--model", model, "--batch", str(case.batch), "--length",
               str(case.length), "--rank", str(case.rank), "--accumulate", str(case.accumulate), "--steps", str(STEPS)]
    return command + ["--checkpointing"] * case.recompute + ["--four-bits"] * case.four_bits


def surogate_config(case, model, work):
    """Rows of text fill sequences by packing; no evaluation and no checkpoint falls into the steps that are timed."""
    lines = [f"model: {model}", f"output_dir: {work}/out", f"per_device_train_batch_size: {case.batch}",
             f"gradient_accumulation_steps: {case.accumulate}", "sample_packing: true", f"sequence_len: {case.length}",
             f"max_steps: {STEPS}", "eval_steps: 0", f"save_steps: {STEPS + 1}", "learning_rate: 1e-4", "recipe: bf16",
             f"recompute: {str(case.recompute).lower()}", "lora: true", f"lora_rank: {case.rank}",
             f"lora_alpha: {2 * case.rank}", "lora_dropout: 0", "lora_target_modules:"]
    lines += [f"  - {name}" for name in LINEARS]
    lines += ["qlora_bnb: true", "qlora_bnb_double_quant: true"] * case.four_bits
    lines += [f"log_file: {work}/steps.json", "datasets:", f"  - path: {work}/rows.jsonl", "    type: text",
              "    text_field: text"]
    return "\n".join(lines) + "\n"


def surogate_command(case, model, work):
    if not os.path.exists(os.path.join(model, "tokenizer.json")):
        raise Missing(f"{model} has no tokenizer.json, which surogate wants: copy it from {case.model}")
    words = random.Random(1)
    with open(os.path.join(work, "rows.jsonl"), "w", encoding="utf-8") as file:
        for _ in range(max(64, 2 * (STEPS + 2) * case.step_tokens // 1024)):
            text = " ".join(str(words.randrange(10**6)) for _ in range(512))
            file.write(json.dumps({"text": text}) + "\n")
    with open(os.path.join(work, "run.yaml"), "w", encoding="utf-8") as file:
        file.write(surogate_config(case, model, work))
    return [program_of("surogate"), "sft", os.path.join(work, "run.yaml")]


def write_llmq_tokens(path, count, vocabulary):
    """LLMQ's token file: 256 header words (magic, version 2, 4 bytes a token, tokens, vocabulary, no masks), tokens."""
    header = bytearray(1024)
    header[0:8] = b"BIN.TOK\n"
    header[8:28] = array.array("i", [2, 4, count, vocabulary, 0]).tobytes()
    draw = random.Random(1)
    with open(path, "wb") as file:
        file.write(header)
        file.write(array.array("i", (draw.randrange(vocabulary) for _ in range(count))).tobytes())


def llmq_command(case, model, work):
    # An evaluation of all of its file ends a run and every epoch: it is kept short, and no epoch ends before the run. The loader
    # wants a sequence more than it hands out.
    for name, tokens in (("train", STEPS * case.step_tokens + case.length + 1), ("eval", (case.batch + 1) * case.length + 1)):
        write_llmq_tokens(os.path.join(work, f"{name}.bin"), tokens, case.vocabulary)
    return [program_of("llmq"), f"--model={model}", "--from-scratch", f"--train-file={work}/train.bin", f"--eval-file={work}/eval.bin",
            f"--batch-size={case.batch}", f"--seq-len={case.length}", f"--grad-accumulation={case.accumulate}",
            f"--steps={STEPS}", "--model-dtype=bf16", "--matmul-dtype=bf16", "--opt-m-dtype=bf16", "--opt-v-dtype=bf16",
            "--gpus=1", "--use-cuda-graphs", f"--eval-every-n-steps={STEPS + 1}", "--eval-num-steps=1",
            f"--ckpt-interval={STEPS + 1}", "--save-training-state=false", f"--out-dir={work}/out", f"--checkpoint-dir={work}/ckpt",
            f"--log-file={work}/steps.json"] + ["--recompute-block"] * case.recompute


def steps_of_log(text, tokens):
    """Seconds of each step, from the log files of LLMQ and Surogate: one object a step on a line of its own."""
    seconds = []
    for line in text.splitlines():
        milliseconds = re.search(r'"duration_ms": *(\d+)', line)
        counted = re.search(r'"step_tokens": *(\d+)', line)
        if '"log": "step"' in line and milliseconds and counted and int(counted[1]) == tokens:
            seconds.append(int(milliseconds[1]) / 1000)
    return seconds


def steps_of_output(text, _tokens):
    found = re.search(r"^STEPS (\[.*\])$", text, re.MULTILINE)
    return json.loads(found[1]) if found else []


COMMANDS = {"unsloth": unsloth_command, "surogate": surogate_command, "llmq": llmq_command}


class CardMemory(threading.Thread):
    """The most that the driver counted on the card, in GiB, above what was there before."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before = self.used()
        self.most = 0.0
        self.done = threading.Event()

    @staticmethod
    def used():
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
        return float(subprocess.run(query, capture_output=True, text=True, check=True).stdout) / 1024

    def run(self):
        while not self.done.wait(0.25):
            self.most = max(self.most, self.used() - self.before)


def model_folder(case):
    folder = os.path.join(os.environ.get("MODELS", "build/rivals/models"), case.model.rsplit("/", 1)[-1])
    if not os.path.exists(os.path.join(folder, "config.json")):
        snug = os.environ.get("SNUG", "build/cuda/snug")
        if shutil.which(snug) is None:
            raise Missing(f"{folder} does not exist, and {snug} (set SNUG) is not there to make it")
        subprocess.run([snug, "synth", case.model, folder, "--dtype", "bf16"], check=True, stdout=subprocess.DEVNULL)
    return os.path.abspath(folder)


def require_stack(stack):
    program = program_of(stack)
    if shutil.which(program) is None:
        raise Missing(f"{program} is not there. {INSTALL[stack]}")
    # Importing it would look for a card.
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('unsloth') is None)"
    if stack == "unsloth" and subprocess.run([program, "-c", find], check=False).returncode != 0:
        raise Missing(f"{program} has no unsloth. {INSTALL[stack]}")


def run_case(name, stack, logs):
    case = CASES[name]
    require_stack(stack)
    work = os.path.abspath(os.path.join(logs, f"{name}-{stack}"))
    os.makedirs(work, exist_ok=True)
    command = COMMANDS[stack](case, model_folder(case), work)
    command[0] = os.path.abspath(shutil.which(command[0]))  # it runs in another folder
    steps_file = os.path.join(work, "steps.json")
    if os.path.exists(steps_file):  # of an earlier run
        os.remove(steps_file)
    memory = CardMemory()
    memory.start()
    log = work + ".log"
    with open(log, "w", encoding="utf-8") as file:
        file.write("$ " + shlex.join(command) + "\n")
        file.flush()
        started = time.monotonic()
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, cwd=work).returncode
    memory.done.set()
    memory.join()
    shutil.rmtree(os.path.join(work, "out"), ignore_errors=True)  # the trained model
    if os.path.exists(steps_file):
        seconds = steps_of_log(open(steps_file, encoding="utf-8").read(), case.step_tokens)
    else:
        seconds = steps_of_output(open(log, encoding="utf-8").read(), case.step_tokens)
    if len(seconds) <= WARM_UP:
        raise Missing(f"{stack} ended with code {code} after {len(seconds)} steps: see {log}")
    median = statistics.median(seconds[WARM_UP:])
    return {"stack": stack, "model": case.model, "batch": case.batch, "length": case.length, "rank": case.rank,
            "accumulate": case.accumulate, "recompute": case.recompute, "four_bits": case.four_bits,
            "tok_s": case.step_tokens / median, "step_s": median, "driver_GiB": memory.most,
            "whole_run_s": time.monotonic() - started, "log": log}


def self_test():
    case = CASES["D"]
    command = unsloth_command(case, "/m", "/w")
    assert command[2:4] == ["--model", "/m"] and command[-2:] == ["--checkpointing", "--four-bits"], command
    assert "--checkpointing" not in unsloth_command(CASES["A"], "/m", "/w")
    config = surogate_config(case, "/m", "/w")
    for line in ("model: /m", "sequence_len: 1536", "recompute: true", "lora_rank: 16", "qlora_bnb: true", "  - down_proj"):
        assert line in config.splitlines(), line
    assert "qlora_bnb" not in surogate_config(CASES["Q3"], "/m", "/w")
    import tempfile

    with tempfile.TemporaryDirectory() as work:
        command = llmq_command(CASES["F05"], "/m", work)
        assert "--grad-accumulation=4" in command and "--batch-size=32" in command, command
        words = array.array("i", open(os.path.join(work, "train.bin"), "rb").read())
        tokens = STEPS * 4 * 32 * 1024 + 1024 + 1
        assert words[2:7].tolist() == [2, 4, tokens, 151936, 0] and len(words) == 256 + tokens
        assert max(words[256:]) < 151936 and min(words[256:]) >= 0
        try:
            surogate_command(case, work, work)
            raise AssertionError("a model without a tokenizer")
        except Missing as missing:
            assert "tokenizer.json" in str(missing)
    log = ('[\n  {"log": "option", "name": "x"},\n'
           '  {"log": "step", "time": "t", "step": 0, "step_tokens": 64, "duration_ms": 250, "loss": 1.5},\n'
           '  {"log": "eval", "step": 0, "eval_tokens": 64, "duration_ms": 9}\n]')
    assert steps_of_log(log, 64) == [0.25], steps_of_log(log, 64)
    assert steps_of_log(log, 65) == []
    assert steps_of_output("hello\nSTEPS [0.5, 0.25]\n", 0) == [0.5, 0.25]
    os.environ.update(UNSLOTH_PYTHON="/no/python", SUROGATE="/no/surogate", LLMQ_TRAIN="/no/train")
    for stack in COMMANDS:
        try:
            require_stack(stack)
            raise AssertionError(stack)
        except Missing as missing:
            assert INSTALL[stack] in str(missing)
    print("rivals.py: self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--logs", default="build/bench-logs")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.list:
        for name, case in CASES.items():
            print(f"{name}: {case}")
        return None
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        sys.exit(f"rivals.py: no case {unknown[0]!r}; there are {' '.join(CASES)}")
    for name in options.cases:
        for stack in CASES[name].stacks:
            try:
                row = run_case(name, stack, options.logs)
                print("PEER " + json.dumps(row), flush=True)
            except (Missing, subprocess.CalledProcessError, FileNotFoundError) as problem:
                print(f"case {name}, {stack}: {problem}", file=sys.stderr)
    return None


if __name__ == "__main__":
    main()
