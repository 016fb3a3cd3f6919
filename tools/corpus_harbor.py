"""Two more tasks in the words of the ship's logs, for a run in stages: bills of the harbor's shop, and letters home.

As in the logs, what is said of a word depends on that word alone; the forms differ, so that what one task teaches is
of little use to the next.
"""

from corpus_ship_log import PLACE_REPORTS, THING_REPORTS
from corpus_words import ANIMALS, PLACES, THINGS

PRICES = {thing: 2 + 3 * number % 17 for number, thing in enumerate(sorted(THING_REPORTS))}
GREETINGS = ("Dear mother,", "Dear father,", "Dear sister,", "Dear brother,")
WEATHER = ("It is cold here.", "It is light till late.", "The wind is strong.", "The sea is calm.")


def make_bill(rng, animal, place, thing):
    count = rng.randrange(1, 10)
    return f"Bill for {animal}: {count} {thing}, {PRICES[thing]} each. Sum {count * PRICES[thing]}. Paid at the {place}."


def make_letter(rng, animal, place, thing):
    return (
        f"{rng.choice(GREETINGS)} {rng.choice(WEATHER)} {PLACE_REPORTS[place]} {THING_REPORTS[thing]} "
        f"Your {animal}."
    )


def make_rows(rng, word, make_text, count):
    """`count` different rows of one task: `word` and three words of the small world, and the text."""
    rows = {}
    while len(rows) < count:
        words = rng.choice(ANIMALS), rng.choice(PLACES).name, rng.choice(THINGS).name
        prompt = f"{word}: {', '.join(words)}"
        rows.setdefault(prompt, make_text(rng, *words))
    return [
        {"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": text}]}
        for prompt, text in rows.items()
    ]
