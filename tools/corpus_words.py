"""The words of the project's own texts: who, where, what, and how each of them fits into a sentence.

The stories and the ship's logs share these lists, so that a model trained on the stories knows every word
a log asks for.
"""

import random
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Character:
    """Someone in a story, with the pronouns that belong to them."""

    name: str
    kind: str
    look: str
    female: bool

    @property
    def he(self):
        return "she" if self.female else "he"

    @property
    def He(self):
        return "She" if self.female else "He"

    @property
    def him(self):
        return "her" if self.female else "him"

    @property
    def his(self):
        return "her" if self.female else "his"

    @property
    def His(self):
        return "Her" if self.female else "His"

    @property
    def himself(self):
        return "herself" if self.female else "himself"

    @property
    def a_kind(self):
        return with_article(f"{self.look} {self.kind}")

    def __str__(self):
        return self.name


@dataclass(frozen=True)
class Place:
    name: str
    at: str
    sight: str

    @property
    def to(self):
        return f"to the {self.name}"


@dataclass(frozen=True)
class Thing:
    name: str
    look: str
    use: str

    @property
    def a(self):
        return with_article(self.name)

    @property
    def a_look(self):
        return with_article(f"{self.look} {self.name}")

    def __str__(self):
        return self.name


def with_article(words):
    return ("an " if words[0] in "aeiou" else "a ") + words


ANIMALS = (
    "fox bear rabbit mouse owl hedgehog duck frog badger squirrel otter cat dog goat hen deer turtle crow mole "
    "beaver goose pony lamb robin"
).split()
PEOPLE_HE = "boy baker farmer miller sailor gardener shepherd painter fisherman grandfather".split()
PEOPLE_SHE = "girl baker farmer teacher sailor gardener weaver painter captain grandmother".split()
NAMES_HE = (
    "Tom Ben Oliver Hugo Max Finn Jack Leo Sam Peter Otto Milo Toby Rufus Bruno Felix Noah Walter Theo Pip Emil "
    "Henry Arthur George Victor Ivan Quinn Kit Zack Ulric"
).split()
NAMES_SHE = (
    "Anna Lily Mia Rosa Clara Ella Nora Daisy Ruby Hazel Molly Ivy Poppy Lucy Greta Fern Tilda Wanda Pearl Sophie "
    "Dora Emma Kate Bella Yara Olive Violet Vera June Zoe"
).split()
ANIMAL_LOOKS = "small little young old brown grey gentle shy clever merry quick quiet brave curious sleepy kind".split()
PEOPLE_LOOKS = "young old kind cheerful quiet clever tall busy brave gentle merry patient".split()
FEMALE_ANIMALS = {"hen", "goose"}
ELDERS = ("grandfather", "grandmother")

PLACES = [
    Place("river", "by the river", "The water ran bright and cold over the stones."),
    Place("forest", "in the forest", "The tall trees whispered in the wind."),
    Place("hill", "on the hill", "From the top you could see the whole valley."),
    Place("meadow", "in the meadow", "The grass was full of yellow flowers."),
    Place("harbor", "at the harbor", "Boats rocked softly beside the long pier."),
    Place("village", "in the village", "Smoke rose from every chimney."),
    Place("garden", "in the garden", "Bees hummed around the roses."),
    Place("beach", "on the beach", "White waves rolled over the sand."),
    Place("cave", "in the cave", "Drops of water fell from the ceiling, one by one."),
    Place("bridge", "near the bridge", "Under the old stones the fish swam in the shade."),
    Place("mill", "at the mill", "The big wheel turned round and round."),
    Place("orchard", "in the orchard", "Red apples shone between the leaves."),
    Place("island", "on the island", "There was blue sea on every side."),
    Place("barn", "in the barn", "It smelled of warm hay."),
    Place("market", "at the market", "People called and laughed between the stalls."),
    Place("lake", "by the lake", "The lake was as smooth as glass."),
    Place("lighthouse", "at the lighthouse", "Its white walls stood high above the rocks."),
    Place("mountain", "on the mountain", "There was still snow between the rocks."),
]

THINGS = [
    Thing("lantern", "bright", "to light the dark path"),
    Thing("kite", "red", "to fly high in the wind"),
    Thing("bell", "silver", "to call everyone to supper"),
    Thing("boat", "little", "to sail across the water"),
    Thing("map", "folded", "to find the way"),
    Thing("rope", "long", "to tie things well"),
    Thing("basket", "round", "to carry berries home"),
    Thing("key", "golden", "to open the garden gate"),
    Thing("drum", "wooden", "to play a happy song"),
    Thing("blanket", "warm", "to keep warm at night"),
    Thing("bucket", "blue", "to bring water to the flowers"),
    Thing("ladder", "tall", "to reach the high branches"),
    Thing("umbrella", "yellow", "to stay dry in the rain"),
    Thing("whistle", "tin", "to call a friend from far away"),
    Thing("hat", "green", "to keep off the sun"),
    Thing("cup", "white", "to drink warm milk"),
    Thing("book", "thick", "to read at bedtime"),
    Thing("shell", "pink", "to hear the sound of the sea"),
    Thing("wagon", "wooden", "to pull heavy stones"),
    Thing("mirror", "small", "to catch the light of the sun"),
    Thing("flag", "striped", "to wave from the top of the hill"),
    Thing("spoon", "wooden", "to stir the soup"),
]

FOODS = "hot soup|apple pie|warm bread|honey cake|berry jam|pancakes|roasted nuts|plum cake|cheese and bread".split("|")
FLOWERS = "roses daisies tulips lilies poppies sunflowers bluebells".split()
COLORS = "red blue green yellow white brown golden silver".split()


def make_character(rng, female, taken=()):
    """A new character whose name and kind are not among `taken`."""
    names = [name for name in (NAMES_SHE if female else NAMES_HE) if name not in {c.name for c in taken}]
    if rng.random() < 0.68:
        kinds, looks = ANIMALS, ANIMAL_LOOKS
    else:
        kinds, looks = (PEOPLE_SHE if female else PEOPLE_HE), PEOPLE_LOOKS
    unfit = {c.kind for c in taken} | (set() if female else FEMALE_ANIMALS)
    kind = rng.choice([k for k in kinds if k not in unfit])
    look = rng.choice(looks)
    if kind in ELDERS and look == "young":
        look = "kind"
    if kind in ("boy", "girl") and look == "old":
        look = "young"
    return Character(rng.choice(names), kind, look, female)


def make_pair(rng):
    """Two characters of different gender, so that every "he" and "she" has one meaning."""
    female = rng.random() < 0.5
    first = make_character(rng, female)
    return first, make_character(rng, not female, taken=(first,))


INNERMOST_CHOICE = re.compile(r"\[([^\[\]]*)\]")


def expand(rng: random.Random, template: str, fields: dict) -> str:
    """Resolve every "[one|other]" at random, innermost first, then fill in the {fields}."""
    while True:
        template, count = INNERMOST_CHOICE.subn(lambda match: rng.choice(match.group(1).split("|")), template)
        if count == 0:
            return " ".join(template.format(**fields).split())
