#!/usr/bin/env python3
"""Encoding speed of snug beside Hugging Face's tokenizers: the same texts, one core each, in turns, in one run; then
snug on more threads, and the time of one word as it grows.

    pip install -r tools/requirements-dev.txt
    cmake --build build/release --target tokenizers
    python bench/tokenizers_speed.py [--megabytes 10] [--program build/release/tokenizers] [MODEL ...]

`tokenizers` is given its best way: encode() text by text, encode_batch() or encode_batch_fast(), all on one thread.
One core's speed is in processor time, which other work on the machine does not change much; threads are in wall time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from check_tokenizers import SHARED, load  # noqa: E402
from tokenizer_texts import REPOSITORY, mixed_texts, natural_texts, write_texts  # noqa: E402

ROUNDS = 3


def time_reference(tokenizer, texts):
    seconds = {}
    for name, encode in (("encode", lambda: [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]),
                         ("encode_batch", lambda: tokenizer.encode_batch(texts, add_special_tokens=False)),
                         ("encode_batch_fast", lambda: tokenizer.encode_batch_fast(texts, add_special_tokens=False))):
        start = time.process_time()
        encode()
        seconds[name] = time.process_time() - start
    return seconds


def time_snug(program, folder, texts_file):
    output = subprocess.run([program, folder, texts_file], check=True,
                            stdout=subprocess.PIPE).stdout
    return json.loads(output)["mb_per_cpu_second"]


def compare(folder, kind, texts, program, texts_file):
    tokenizer = load(folder)
    strings = [text.decode(errors="replace") for text in texts]
    megabytes = sum(map(len, texts)) / 1e6
    write_texts(texts_file, texts)
    reference, snug = {}, 0
    for _ in range(ROUNDS):
        for name, seconds in time_reference(tokenizer, strings).items():
            reference[name] = max(reference.get(name, 0), megabytes / seconds)
        snug = max(snug, time_snug(program, folder, texts_file))
    best = max(reference, key=reference.get)
    print(f"{folder.name:14} {kind:8} snug {snug:7.1f} MB/s   tokenizers {reference[best]:6.2f} MB/s ({best})   "
          f"{snug / reference[best]:5.1f} x", flush=True)


def scaling(folder, texts, program, texts_file):
    write_texts(texts_file, texts)
    wall = {}
    for _ in range(ROUNDS):
        for threads in (1, os.cpu_count()):
            output = subprocess.run([program, folder, texts_file, "--threads", str(threads)], check=True,
                                    stdout=subprocess.PIPE).stdout
            wall[threads] = max(wall.get(threads, 0), json.loads(output)["mb_per_second"])
    print(f"{folder.name:14} wall time: " + ", ".join(f"{n} threads {rate:.1f} MB/s" for n, rate in wall.items()),
          flush=True)


def long_word(folder, program, texts_file):
    times = []
    for size in (125_000, 250_000, 500_000, 1_000_000):
        write_texts(texts_file, [word[:size] for word in mixed_texts(0)[:1]])
        rate = max(time_snug(program, folder, texts_file) for _ in range(ROUNDS))
        times.append(f"{size // 1000} kB {size / 1e3 / rate:.1f} ms")
    print(f"{folder.name:14} one word: " + ", ".join(times), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--program", default=REPOSITORY / "build" / "release" / "tokenizers")
    arguments = parser.parse_args()
    models = arguments.models or sorted(SHARED.iterdir() if SHARED.is_dir() else [])
    if not models:
        sys.exit("bench: there is no ../shared/data/tokenizers; name a folder with tokenizer.json")
    with tempfile.TemporaryDirectory() as work:
        texts_file = Path(work) / "texts"
        for kind, texts in (("prose", natural_texts(arguments.megabytes)), ("mixed", mixed_texts(arguments.megabytes))):
            for folder in models:
                compare(folder, kind, texts, arguments.program, texts_file)
        for folder in models:
            scaling(folder, natural_texts(4 * arguments.megabytes), arguments.program, texts_file)
            long_word(folder, arguments.program, texts_file)


if __name__ == "__main__":
    main()
