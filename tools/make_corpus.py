#!/usr/bin/env python3
"""Writes the texts of the embedded model: short stories to learn English from; ship's logs, bills and letters to fine-tune on.

    python3 tools/make_corpus.py

Needs Python's standard library only, and gives the same files on every machine. The stories are large and quickly
made again, so git ignores them; the others are small and committed, for the demo and the recipes need them.
"""

import argparse
import json
import random
from pathlib import Path

from corpus_harbor import make_bill, make_letter, make_rows
from corpus_ship_log import make_entries
from corpus_spelling import known_words, make_spelling_page
from corpus_stories import make_story

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "recipes" / "data"
STORIES = 13000
EVALUATION_STORIES = 200
SPELLING_PAGES = 1500
LOG_ENTRIES = 640
EVALUATION_LOG_ENTRIES = 64
HARBOR_ROWS = 320
EVALUATION_HARBOR_ROWS = 32


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{path.name}: {len(rows)} rows, {path.stat().st_size / 1e6:.2f} MB")


def make_stories(rng, count):
    """`count` stories, all different."""
    stories = {}
    while len(stories) < count:
        stories.setdefault(make_story(rng))
    return [{"text": story} for story in stories]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--stories", type=int, default=STORIES)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    stories = make_stories(random.Random(1), arguments.stories + EVALUATION_STORIES)
    rng = random.Random(3)
    words = known_words()
    pages = [{"text": make_spelling_page(rng, words)} for _ in range(SPELLING_PAGES)]
    write_rows(arguments.output / "stories.jsonl", stories[EVALUATION_STORIES:] + pages)
    write_rows(arguments.output / "stories_eval.jsonl", stories[:EVALUATION_STORIES])

    entries = make_entries(random.Random(2), LOG_ENTRIES + EVALUATION_LOG_ENTRIES)
    write_rows(arguments.output / "ship_log_train.jsonl", entries[EVALUATION_LOG_ENTRIES:])
    write_rows(arguments.output / "ship_log_eval.jsonl", entries[:EVALUATION_LOG_ENTRIES])

    for name, word, make_text, seed in (("bill", "Bill", make_bill, 4), ("letter", "Letter", make_letter, 5)):
        rows = make_rows(random.Random(seed), word, make_text, HARBOR_ROWS + EVALUATION_HARBOR_ROWS)
        write_rows(arguments.output / f"{name}_train.jsonl", rows[EVALUATION_HARBOR_ROWS:])
        write_rows(arguments.output / f"{name}_eval.jsonl", rows[:EVALUATION_HARBOR_ROWS])


if __name__ == "__main__":
    main()
