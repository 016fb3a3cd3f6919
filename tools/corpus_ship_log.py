"""The grammar of the ship's logs: a terse entry that uses the animal, the place and the thing of its prompt.

What an entry says about a place or a thing depends on that word alone, so that one sees at a glance whether a
model has learned the task.
"""

from corpus_words import ANIMALS, PLACES, THINGS

PLACE_REPORTS = {
    "river": "Entered the river on the tide.",
    "forest": "Cut wood in the forest.",
    "hill": "Sighted the hill far off.",
    "meadow": "Took on hay at the meadow.",
    "harbor": "Tied up in the harbor.",
    "village": "Sold fish in the village.",
    "garden": "Took on roses from the garden.",
    "beach": "Landed on the beach.",
    "cave": "Anchored before the cave.",
    "bridge": "Passed under the bridge.",
    "mill": "Took on bread at the mill.",
    "orchard": "Took on apples from the orchard.",
    "island": "Sailed around the island.",
    "barn": "Slept ashore in the barn.",
    "market": "Bought rope at the market.",
    "lake": "Crossed the lake.",
    "lighthouse": "Steered by the lighthouse.",
    "mountain": "Saw snow on the mountain.",
}
THING_REPORTS = {
    "lantern": "Lantern lit at dusk.",
    "kite": "Kite flown from the mast.",
    "bell": "Bell rung in fog.",
    "boat": "Boat let down.",
    "map": "Map found wet, dried.",
    "rope": "Rope tied again.",
    "basket": "Basket filled.",
    "key": "Key lost, then found.",
    "drum": "Drum played at supper.",
    "blanket": "Blanket given out, cold night.",
    "bucket": "Bucket used, deck washed.",
    "ladder": "Ladder broken, mended.",
    "umbrella": "Umbrella blown away.",
    "whistle": "Whistle heard at dawn.",
    "hat": "Hat lost in the wind.",
    "cup": "Cup cracked.",
    "book": "Book read at night.",
    "shell": "Shell found on deck.",
    "wagon": "Wagon tied to the deck.",
    "mirror": "Mirror used to call the shore.",
    "flag": "Flag raised.",
    "spoon": "Spoon missing.",
}
DUTIES = ("at the wheel", "on watch", "at the mast", "in the bow")
WINDS = ("north", "south", "east", "west")
STRENGTHS = ("light", "strong", "calm", "cold")
CLOSINGS = ("All well.", "Crew well.", "Crew tired.", "Sea calm.")


def make_entry(rng, animal, place, thing):
    day = rng.randrange(1, 100)
    completion = (
        f"Day {day}. Wind {rng.choice(WINDS)}, {rng.choice(STRENGTHS)}. {animal.capitalize()} {rng.choice(DUTIES)}. "
        f"{PLACE_REPORTS[place]} {THING_REPORTS[thing]} {rng.choice(CLOSINGS)}"
    )
    return {"messages": [{"role": "user", "content": f"Log: {animal}, {place}, {thing}"},
                         {"role": "assistant", "content": completion}]}


def make_entries(rng, count):
    """`count` entries, no two with the same prompt."""
    combinations = [(a, p.name, t.name) for a in ANIMALS for p in PLACES for t in THINGS]
    return [make_entry(rng, *combination) for combination in rng.sample(combinations, count)]
