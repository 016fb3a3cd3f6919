"""Spelling pages: words in small and capital letters, side by side.

The stories use few words at the start of a sentence. These pages show the model every word of its small world both
ways, so that a later task can begin a sentence with any of them; and they teach it to copy.
"""

import re

from corpus_ship_log import CLOSINGS, DUTIES, PLACE_REPORTS, STRENGTHS, THING_REPORTS, WINDS
from corpus_words import ANIMALS

WORDS_A_PAGE = 24


def known_words():
    texts = [*ANIMALS, *PLACE_REPORTS, *PLACE_REPORTS.values(), *THING_REPORTS, *THING_REPORTS.values()]
    texts += [*DUTIES, *WINDS, *STRENGTHS, *CLOSINGS, "log", "day", "wind"]
    return sorted({word.lower() for text in texts for word in re.findall(r"[A-Za-z]+", text)})


def make_spelling_page(rng, words):
    chosen = rng.sample(words, WORDS_A_PAGE)
    entries = [f"{word} {word.capitalize()}." if rng.random() < 0.5 else f"{word.capitalize()}, {word}." for word in chosen]
    numbers = [f"{number}, {number}." for number in rng.sample(range(1, 100), 4)]
    return "Spelling page. " + " ".join(entries + numbers)
