#!/usr/bin/env python3
"""Compares every id that snug gives with Hugging Face's tokenizers, on mixed text, and what the ids decode to.

    pip install -r tools/requirements-dev.txt
    cmake --build build/release --target tokenizers
    python tools/check_tokenizers.py [--megabytes 10] [--program build/release/tokenizers] [MODEL ...]

A MODEL is a folder with tokenizer.json or tokenizer.json.gz; without one, those in ../shared/data/tokenizers. Bytes
that are not UTF-8 are read as U+FFFD on both sides, as Python's errors="replace" does. Exit code 1: there are
differences.
"""

import argparse
import gzip
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from tokenizers import Tokenizer

from tokenizer_texts import REPOSITORY, mixed_texts, read_texts, write_texts

SHARED = REPOSITORY.parent / "shared" / "data" / "tokenizers"


def load(folder):
    packed = folder / "tokenizer.json.gz"
    text = gzip.open(packed).read() if packed.exists() else (folder / "tokenizer.json").read_bytes()
    return Tokenizer.from_str(text.decode())


def show_difference(text, ours, theirs, tokenizer):
    where = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    first, last = max(0, where - 3), where + 5
    print(f"    text of {len(text)} bytes, token {where}:")
    print("      snug      ", [(int(i), tokenizer.id_to_token(int(i))) for i in ours[first:last]])
    print("      tokenizers", [(int(i), tokenizer.id_to_token(int(i))) for i in theirs[first:last]])


def check(folder, texts, program, work):
    tokenizer = load(folder)
    texts_file, ids_file, decoded_file = work / "texts", work / "ids", work / "decoded"
    write_texts(texts_file, texts)
    subprocess.run([program, folder, texts_file, "--ids", ids_file, "--decoded", decoded_file], check=True,
                   stdout=subprocess.DEVNULL)
    all_ours = numpy.fromfile(ids_file, dtype=numpy.int32)
    decoded = read_texts(decoded_file)
    position = differing = decoded_differing = returned = tokens = 0
    for index, text in enumerate(texts):
        count = all_ours[position]
        ours = all_ours[position + 1:position + 1 + count]
        position += 1 + count
        theirs = tokenizer.encode(text.decode(errors="replace"), add_special_tokens=False).ids
        tokens += len(theirs)
        if len(theirs) != count or (ours != numpy.array(theirs, dtype=numpy.int32)).any():
            differing += 1
            if differing <= 5:
                show_difference(text, ours, theirs, tokenizer)
            continue
        if decoded[index].decode() != tokenizer.decode(theirs, skip_special_tokens=False):
            decoded_differing += 1
            if decoded_differing <= 3:
                print("    decoded", repr(decoded[index].decode()[:150]))
                print("    instead", repr(tokenizer.decode(theirs, skip_special_tokens=False)[:150]))
        returned += decoded[index] == text
    megabytes = sum(map(len, texts)) / 1e6
    print(f"{folder.name}: {megabytes:.1f} MB in {len(texts)} texts, {tokens} tokens: {differing} texts with different "
          f"ids, {decoded_differing} with different decoded text; decoding returned {returned} texts as they were")
    return differing + decoded_differing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=REPOSITORY / "build" / "release" / "tokenizers")
    arguments = parser.parse_args()
    models = arguments.models or sorted(SHARED.iterdir() if SHARED.is_dir() else [])
    if not models:
        sys.exit("check_tokenizers: there is no ../shared/data/tokenizers; name a folder with tokenizer.json")
    texts = mixed_texts(arguments.megabytes, arguments.seed)
    with tempfile.TemporaryDirectory() as work:
        problems = sum(check(folder, texts, arguments.program, Path(work)) for folder in models)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
