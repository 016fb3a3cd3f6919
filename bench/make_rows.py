#!/usr/bin/env python3
"""Writes cooking recipes as JSONL: {"prompt": ..., "completion": ...}, about 830 bytes a row, no two alike.

    bench/make_rows.py 6000000 > rows.jsonl       # about 5 GB, a few minutes
    bench/make_rows.py 1000 --chat > chat.jsonl   # the same as messages
"""
import argparse
import json
import random
import sys

FOODS = """flour sugar butter eggs milk cream yogurt cheddar parmesan feta mozzarella rice pasta spaghetti lentils
chickpeas beans tofu chicken beef pork lamb salmon tuna shrimp cod turkey bacon sausage onion garlic ginger carrot
celery leek potato pumpkin zucchini eggplant tomato pepper spinach kale broccoli cauliflower cabbage mushrooms corn
peas avocado cucumber lettuce lemon lime orange apple banana mango peach cherries blueberries raspberries walnuts
almonds cashews peanuts sesame honey molasses vanilla cinnamon nutmeg cumin coriander turmeric paprika oregano basil
thyme rosemary parsley cilantro dill mint vinegar mustard mayonnaise ketchup tahini miso tamari olives capers
anchovies breadcrumbs oats quinoa couscous barley polenta tortillas noodles coconut chocolate cocoa gelatin yeast""".split()
UNITS = "cup cups tablespoon tablespoons teaspoon teaspoons pound ounces grams can package pinch clove slices".split()
ADJECTIVES = """creamy spicy smoky crispy rustic golden roasted grilled braised slow-cooked fragrant tangy sweet hearty
light classic homemade quick easy festive savory buttery crunchy tender zesty""".split()
DISHES = """soup stew salad casserole curry pie tart risotto gratin stir-fry tacos burgers lasagna chowder bake bowl
pilaf skewers dumplings pancakes muffins bread cookies cake pudding chili omelette frittata wraps meatballs""".split()
VERBS = """Chop Slice Dice Mince Peel Grate Whisk Combine Fold Simmer Boil Roast Bake Fry Saute Marinate Season Drain
Rinse Knead Chill Toast Melt Blend Stir Reduce Garnish Spread Layer Brush""".split()
ENDS = ["until golden brown", "until tender", "until the sauce thickens", "over medium heat", "in a large bowl",
        "with a wooden spoon", "and set aside", "in a preheated oven", "on a lined tray", "until well combined",
        "and let it rest", "before serving", "stirring often", "without letting it brown", "to taste"]


def recipe(rng):
    foods = rng.sample(FOODS, 7)
    title = f"{rng.choice(ADJECTIVES).capitalize()} {foods[0]} and {foods[1]} {rng.choice(DISHES)}"
    lines = [title, "", "Ingredients:"]
    lines += [f"- {rng.randint(1, 12)}{rng.choice(['', ' 1/2', ' 1/4', ' 3/4'])} {rng.choice(UNITS)} {food}, "
              f"{rng.choice(ADJECTIVES)}" for food in foods]
    lines += ["", "Directions:"]
    lines += [f"{i + 1}. {rng.choice(VERBS)} the {rng.choice(foods)} and the {rng.choice(foods)} {rng.choice(ENDS)}, "
              f"about {rng.randint(2, 55)} minutes." for i in range(rng.randint(3, 8))]
    prompt = f"Write a recipe for {rng.randint(2, 8)} people with {', '.join(foods[:5])}."
    return prompt, "\n".join(lines) + f"\n\nServes {rng.randint(2, 8)}, {rng.randint(120, 990)} kcal each."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chat", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    for _ in range(options.rows):
        prompt, completion = recipe(rng)
        row = {"prompt": prompt, "completion": completion}
        if options.chat:
            row = {"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}]}
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
