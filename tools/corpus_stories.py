"""The grammar of the stories: who they are about, what is wanted, what stands in the way, how it ends.

Every plot is a list of sentence templates. "[a|b]" is a choice, "{h}" the hero, "{f}" the friend, "{p}" a place,
"{t}" a thing; hero and friend differ in gender, so that a pronoun always says who is meant.
"""

from corpus_words import COLORS, FLOWERS, FOODS, PLACES, THINGS, expand, make_pair

OPENINGS = [
    "[Once upon a time|Long ago|Once], there was {h.a_kind} named {h}. {h} lived {p.at}.",
    "{h} was {h.a_kind} who lived {p.at}. {p.sight}",
    "[In a quiet land|Far away|Not far from here], {h.a_kind} called {h} had a small [house|home] {p.at}. {p.sight}",
    "There once lived {h.a_kind} {p.at}. {h.His} name was {h}.",
    "Everyone {p.at} knew {h}, {h.a_kind} with [bright eyes|a big heart|a soft voice|a warm smile].",
    "[One|On a] [bright|cold|windy|sunny|quiet|warm] [morning|day], {h.a_kind} named {h} was {p.at}. {p.sight}",
]
MEET_FRIEND = [
    "{h.His} best friend was {f}, {f.a_kind}.",
    "{h} had a good friend, {f.a_kind} named {f}.",
    "{f}, {f.a_kind}, lived [nearby|next door|just down the road].",
]
ARRIVES = [
    "Just then, {f.a_kind} named {f} came by.",
    "Soon {f}, {f.a_kind}, came along the [path|road].",
    "Then {h} saw {f}, {f.a_kind}, [sitting under a tree|walking home|resting on a stone].",
    "After a while, {f.a_kind} came along. {f.His} name was {f}.",
]
DAY = ["One [morning|afternoon|evening|day],", "One [fine|quiet] [morning|day],", "On a [rainy|sunny|windy|cold] [day|morning],"]
ENDINGS = [
    "From that day on, {h} and {f} were [the best of friends|always together|good friends].",
    "That night {h} fell asleep with a smile.",
    "And they [laughed|sang|danced] until the [sun went down|stars came out|moon was high].",
    "{h} went home [happy|tired but happy|with a full heart].",
    "Then they ate {food2} together, and everything was well.",
    "{h} never forgot that day.",
    "\"[What a day|What a good day|That was fun]!\" said {h}, and {f} [nodded|laughed|agreed].",
]
QUIET_ENDINGS = [
    "{h} slept until the sun was high.",
    "Outside, the stars shone over the {p.name}.",
    "And {h} dreamed of the {p2.name} all night long.",
    "\"Good night, {h},\" said {f}.",
]
LESSONS = {
    "help": ["{h} learned that [a friend can help|it is good to ask for help|two can do what one cannot].",
             "It is [easier|better] to do things together."],
    "share": ["{h} learned that [sharing makes a thing better|a thing is twice as nice when you share it].",
              "And so they shared everything."],
    "brave": ["{h} was not afraid any more.", "{h} learned that being brave means [trying|going on] when you are afraid."],
    "truth": ["{h} learned that it is best to tell the truth.", "The truth is sometimes hard, but it makes the heart light."],
    "wait": ["{h} learned that good things take time.", "Some things cannot be hurried."],
    "none": [""],
}

LOST = [
    "{h} had {t.a_look}. {h.He} used it {t.use}.",
    "{day} {h} could not find the {t}. {h.He} looked [under the bed|behind the door|in every corner] and [in the grass|on the shelf|by the well], but it was not there.",
    "{h} was very sad. \"[Where is my {t}|Where can my {t} be|Where did I leave my {t}]?\" {h.he} [cried|asked|said].",
    "{arrives} \"[What is wrong|Why are you sad|Why do you cry]?\" {f.he} asked. \"I have lost my {t},\" said {h}.",
    "\"[Do not worry|Do not cry|Cheer up],\" said {f}. \"[We will look together|I will help you look|Two can look better than one].\"",
    "They went {p2.to}. {p2.sight} [There, under a bush|There, behind a big stone|There, between two roots], {f} saw something [half hidden in the leaves|that did not belong there|in the shade]. It was the {t}!",
    "\"[Thank you|Oh, thank you|You found it], {f}!\" said {h}, and {h.he} held the {t} tight.",
]
QUARREL = [
    "{meet}",
    "{day} they found {t.a_look} {p2.at}. \"[It is mine|I saw it first]!\" said {h}. \"No, [it is mine|I saw it first]!\" said {f}.",
    "They pulled and pulled, and neither would let go. [At last|Then] both of them fell down [in the mud|in the grass|with a bump].",
    "{h} looked at {f}. {f.His} [nose|face] was full of [mud|grass|leaves]. {h} began to laugh, and {f} laughed too.",
    "\"[We can take turns|Let us share it|We can both have it],\" said {h}. \"You [take|have|keep] the {t} today, and I will [take|have|keep] it tomorrow.\"",
    "\"[That is fair|Yes, let us do that|That is a good idea],\" said {f}. So {f} used the {t} {t.use}, and the next day it was {h}'s turn.",
]
NEWCOMER = [
    "{day} someone new came {p.to}. It was {f}, {f.a_kind}.",
    "{f} did not know anyone. {f.He} sat alone [under a tree|on a stone|by the gate] and did not [speak|smile|play].",
    "{h} wanted to [say hello|make a new friend], but {h.he} was [shy|not sure how|a little shy].",
    "So {h} [took|brought] {t.a_look} and sat down [beside|next to] {f}. \"[Look|See], I have {t.a},\" {h.he} said. \"We can use it {t.use}.\"",
    "{f} looked up. \"[May I try|Can I hold it|May I see it]?\" {f.he} asked. \"[Of course|Yes|Please do],\" said {h}.",
    "They [played|talked|sat together] all [day|afternoon]. {f} told {h} about the {p2.name} where {f.he} was born. {p2.sight}",
    "\"[I was afraid to come here|I missed my home],\" said {f}, \"but now I have a friend.\"",
]
FEARS = {
    "dark": ("the dark", "At night {h.he} saw strange shapes on the wall.", "lit a small lamp and showed {h.him} that the shapes were only [coats and chairs|trees and leaves]"),
    "thunder": ("thunder", "When the sky was loud, {h.he} hid under the bed.", "counted with {h.him} from the flash to the boom, and each time the storm was farther away"),
    "water": ("deep water", "{h.He} never put more than one foot in.", "held {h.him} by the hand and went in slowly, one step at a time"),
    "height": ("high places", "{h.He} never climbed anything taller than a chair.", "climbed just ahead of {h.him} and showed {h.him} where to put each foot"),
    "wind": ("the wind", "When the windows shook, {h.he} pulled the blanket over {h.his} head.", "took {h.him} outside with a kite, and the wind carried it up and up"),
}
FEAR = [
    "{h} was [brave|happy] in most things, but {h.he} was afraid of {fear}. {fear_sign}",
    "{day} {h} told {f}, {f.a_kind}, about it. \"[Please do not laugh|Do not tell anyone],\" {h.he} said.",
    "\"I will not [laugh|tell],\" said {f}. \"[I was afraid once, too|Everyone is afraid of something]. [Come with me|Let me show you something|Let us try together].\"",
    "That [evening|day], {f} {fear_cure}.",
    "At first {h}'s [heart beat fast|knees shook|hands were cold]. [But then|After a while|Slowly], {h.he} [began to smile|took a deep breath|stood up straight].",
    "\"[Look at me|I did it|It is not so bad]!\" {h.he} said. \"[I knew you could|You did it|Well done],\" said {f}.",
]
GIFT = [
    "{meet} {f} would soon have a birthday, and {h} wanted to [make|give] {f.him} something [special|fine|nice].",
    "\"I will make {t.a},\" thought {h}. \"Then {f} can use it {t.use}.\"",
    "{h} worked all [day|morning]. But the first {t} [broke|fell apart], and the second one was too [small|big|heavy].",
    "{h} wanted to [give up|stop]. {h.He} sat down [by the window|on the floor] and [sighed|closed {h.his} eyes]. Then {h.he} thought of {f} and tried [again|once more].",
    "The third {t} was not perfect, but it was [strong|pretty|{color}] and made with love.",
    "On the birthday, {f} opened the box. \"[Oh, how lovely|It is wonderful|I love it]!\" {f.he} said. \"Did you make this [for me|yourself]?\"",
    "{h} [nodded|smiled|turned red]. \"[It took three tries|It was not easy|I tried and tried],\" {h.he} said.",
]
RACE = [
    "{meet} Both of them [were fast|liked to run|loved to race].",
    "{day} they had a race from the {p.name} {p2.to}. \"[Ready, set, go|One, two, three, go]!\" they [called|shouted].",
    "{h} ran [like the wind|as fast as {h.he} could] and was soon far ahead. [Then|Suddenly] {h.he} heard a cry. {f} had [fallen|slipped] and hurt {f.his} [leg|foot|knee].",
    "{h} looked at the {p2.name}. It was so near! But {h.he} turned around and ran back.",
    "\"[You will lose|You could have won],\" said {f}. \"[You are more important than a race|I would rather have a friend than a prize],\" said {h}.",
    "{h} helped {f} up, and they walked the last part [side by side|arm in arm|very slowly]. They [reached|came to] the {p2.name} at the same time.",
]
TRUTH = [
    "{meet} {f} had {t.a_look} and was very proud of it.",
    "{day} {h} borrowed the {t} {t.use}. \"[Please be careful|Take good care of it],\" said {f}. \"[I will|I promise],\" said {h}.",
    "But {h} [ran too fast|did not look|was in a hurry] and fell, and the {t} [broke|cracked|was broken].",
    "{h} [felt sick|was ashamed|felt hot and cold]. \"I could [hide it|say that the wind did it|say nothing],\" {h.he} thought.",
    "All night {h.he} could not sleep. In the morning {h.he} went to {f} and said, \"I broke your {t}. I am [very|so] sorry.\"",
    "{f} was quiet for a while. Then {f.he} said, \"[Thank you for telling me|It was brave to tell me|I am glad you told me]. [Let us mend it|We can fix it] together.\"",
    "They worked with [glue|string|a little hammer] until the {t} was [whole again|almost like new|as good as before].",
]
OBSTACLES = [
    ("{h} wanted to visit {h.his} aunt, but night came and the path was too dark to see.", "lantern", "{f} lit the lantern and walked ahead, and the path was bright all the way"),
    ("{h} wanted to pick the flowers on the other side of the water, but there was no bridge.", "boat", "They sat in the boat and rowed across, one stroke after the other"),
    ("{h} wanted the ripe pears at the top of the tree, but {h.he} could not reach them.", "ladder", "They set the ladder against the tree, and {h} climbed up and filled a bag"),
    ("{h} heard a lamb crying. It had fallen into a deep hole and could not get out.", "rope", "They let down the rope and pulled, and out came the lamb"),
    ("{h} wanted to go home, but the rain came down hard and there was no roof anywhere.", "umbrella", "They walked close together under the umbrella and stayed quite dry"),
    ("{h} wanted to see the old tower, but every path looked the same and {h.he} was lost.", "map", "They spread the map on a stone, found the right path and followed it"),
    ("{h} wanted to rest in the garden, but the gate was locked.", "key", "The key turned with a click, and the gate swung open"),
    ("{h} had walked too far, and the night was cold. {h.He} shivered and shook.", "blanket", "They wrapped the blanket around their shoulders and were soon warm"),
    ("the flowers were dry and hung their heads, and the well was far away.", "bucket", "They carried the bucket back and forth until every flower stood up again"),
    ("{h} had picked more berries than {h.he} could hold, and they rolled all over the road.", "basket", "They put the berries into the basket and did not lose one more"),
    ("a thick fog came up, and {h} could not see {h.his} own feet.", "bell", "{f} rang the bell again and again, and {h} followed the sound to safety"),
    ("{h} had to bring ten heavy stones up the road, and {h.his} arms were tired.", "wagon", "They laid the stones in the wagon; one pulled, the other pushed"),
]
OBSTACLE = [
    "{day} {problem}",
    "\"[Oh dear!|Oh no!|What now?]\" said {h}. \"What [can|shall|should] I do?\" {h.He} [thought and thought|tried and tried|sat down], but nothing helped.",
    "{arrives} {f.He} [carried|had] {tool_a}. \"[I can help|Let me help you|Maybe this will help],\" {f.he} said.",
    "{solution}.",
    "\"[Thank you|How clever you are|I am so glad you came],\" said {h}. \"[It was nothing|You are welcome|Friends help each other],\" said {f}.",
    "[To say thank you|Later that day|In the evening], {h} [gave {f} some {food}|asked {f} to stay for {food}|shared {food} with {f}].",
]
NOISES = [
    ("Tap, tap, tap", "a branch that the wind was knocking against the window"),
    ("Whoo, whoo", "the wind blowing over an empty bottle"),
    ("Scratch, scratch", "a tiny kitten that wanted to come in"),
    ("Drip, drop, drip", "an old bucket with a hole in it"),
    ("Thump, thump", "a little lamb that was jumping for joy"),
    ("Ding, ding", "a bell that hung on a goat's neck"),
    ("Rumble, rumble", "a bear who was snoring in the hay"),
]
NOISE = [
    "{day} {h} heard a strange sound. \"{sound}!\" it went. \"[What is that|Who is there]?\" {h.he} [whispered|asked].",
    "Nobody answered. {h} ran to {f}, {f.a_kind}, as fast as {h.he} could. \"There is [a monster|something terrible|a ghost] {p2.at}!\" {h.he} said.",
    "\"[Let us look|We should see what it is|Come, we will go together],\" said {f}, and {f.he} took {t.a_look} along.",
    "They [crept|walked on soft feet|went slowly] {p2.to}. \"{sound}!\" it went again. {h} wanted to run, but {f} held {h.his} hand.",
    "They looked [around the corner|behind the door|over the wall]. It was only {source}!",
    "{h} [laughed out loud|had to laugh|began to giggle]. \"And I was so afraid,\" {h.he} said.",
]
SEED = [
    "{day} {f}, {f.a_kind}, gave {h} a [tiny|little|small] seed. \"[Plant it and wait|Put it in the ground and be patient],\" {f.he} said.",
    "{h} dug a hole {p2.at}, put in the seed and gave it water. Then {h.he} sat down and watched.",
    "Nothing happened. On day {n1} there was still nothing. On day {n2} {h} said, \"[It will never grow|It must be a bad seed].\"",
    "\"[Wait a little more|Give it time],\" said {f}. So {h} brought water every [morning|evening], and sang to the seed.",
    "On day {n3} there was a green [leaf|tip]! It grew and grew, and in summer there were {n4} {flowers}.",
    "{h} picked one and gave it to {f}. \"[You were right|Thank you for the seed],\" {h.he} said.",
]
VOYAGE = [
    "{h} had {t.a_look} and a small boat with a {color} sail. {f}, {f.a_kind}, was the captain.",
    "{day} the wind came from the {wind}, and they sailed out of the harbor. \"[Pull up the anchor|Raise the sail]!\" called {f}. \"Yes, captain!\" said {h}.",
    "For {n1} days they saw [only water|nothing but waves]. {h} kept watch at night, and {f} [steered by the stars|held the wheel].",
    "On day {n2} a storm came. The waves were as high as houses. {h} tied the {t} to the [mast|deck], and {f} held the boat [on course|against the wind].",
    "At dawn the sea was calm. \"[Land|I see land]!\" cried {h}. There was the {land.name}. {land.sight}",
    "They dropped the anchor, went [ashore|to the shore] and ate {food}. \"[The crew is well|All is well],\" said {f}, and {f.he} wrote it in [a|the] little book.",
]
COUNTING = [
    "{meet} {day} they went {p2.to} to [pick|gather] [apples|nuts|berries|plums].",
    "{h} found {n1}, and {f} found {n2}. \"[You have more than I do|That is not fair],\" said {h}.",
    "\"[Let us put them together|We can share them],\" said {f}. They put them all in {box} and counted. There were {sum}.",
    "On the way home they met a hungry [mouse|crow|boy|girl|goat]. \"[I have had nothing to eat today,|Please, may I have some?]\" it said in a small voice.",
    "{h} looked at {f}, and {f} nodded. They gave away {n5}. Now there were {rest} left, and that was still enough.",
    "At home {f} made {food}, and the whole house smelled [sweet|good|wonderful].",
]
SLEEP = [
    "It was [late|dark|time for bed], but {h} could not sleep. {h.He} turned to the left and to the right. [The moon was too bright|The wind was too loud|The bed was too warm|The clock was too loud].",
    "{h} got up and went to {f}, {f.a_kind}. \"[I cannot sleep|Sleep will not come],\" {h.he} said.",
    "\"[Drink some warm milk|Sit with me],\" said {f}, \"and I will tell you about the {p2.name}.\"",
    "{f} spoke in a low voice. {p2.sight} There was {t.a_look} there, and someone used it {t.use}.",
    "{h}'s eyes grew heavy. \"[And then|What came next]?\" {h.he} asked, but {h.he} did not hear the answer.",
    "{f} put a blanket over {h.him} and [blew out the candle|closed the door softly|sat by the bed until morning].",
]
SNOW = [
    "In the night the first snow had fallen. {day} everything {p.at} was white and [still|quiet].",
    "{meet} \"[Come out|Let us play]!\" called {f}. They [made a snowman|made a bear of snow|built a giant of snow] and gave it {t.a} to hold.",
    "In the evening {h} was worried. \"[Will it be cold out there|What if it is lonely]?\" {h.he} asked.",
    "\"[Snow likes the cold|It has the moon and the stars],\" said {f}. \"[It will be happy|Do not worry].\"",
    "But the sun came back, and after {n1} days the snow was gone. Only the {t} lay in the wet grass. {h} was [sad|near to tears].",
    "\"[It went with the river to the sea|The snow is in the clouds now],\" said {f}. \"[It will come back next winter|Next year it will visit us again].\"",
]

PLOTS = [
    (LOST, "help"), (QUARREL, "share"), (NEWCOMER, "none"), (FEAR, "brave"), (GIFT, "wait"), (RACE, "none"),
    (TRUTH, "truth"), (OBSTACLE, "help"), (OBSTACLE, "none"), (NOISE, "brave"), (SEED, "wait"), (VOYAGE, "none"),
    (VOYAGE, "help"), (COUNTING, "share"), (SLEEP, "none"), (SNOW, "wait"),
]
TOO_LARGE = ("boat", "wagon", "ladder")  # to lose, to hold or to carry along
MADE_BY_HAND = ("kite", "lantern", "drum", "umbrella", "whistle", "cup", "spoon", "basket", "mirror")  # and easily broken
LANDS = ("harbor", "village", "beach", "island", "lighthouse", "mountain", "hill")  # what one sees from a ship
ISLAND = next(place for place in PLACES if place.name == "island")  # nobody walks there


def pick_fields(rng, plot):
    """Everything a template may ask for, chosen once so that the whole story agrees with itself."""
    hero, friend = make_pair(rng)
    home = rng.choice(PLACES)
    other = rng.choice([place for place in PLACES if place not in (home, ISLAND)])
    food, food2 = rng.sample(FOODS, 2)
    problem, tool, solution = rng.choice(OBSTACLES)
    fear, fear_sign, fear_cure = rng.choice(list(FEARS.values()))
    sound, source = rng.choice(NOISES)
    by_hand = plot in (GIFT, TRUTH)
    thing = rng.choice([t for t in THINGS if (t.name in MADE_BY_HAND if by_hand else t.name not in TOO_LARGE)])
    first, second, third = sorted(rng.sample(range(2, 40), 3))
    fields = dict(
        h=hero, f=friend, p=home, p2=other, t=thing,
        food=food, food2=food2, flowers=rng.choice(FLOWERS), color=rng.choice(COLORS), fear=fear, sound=sound,
        source=source, wind=rng.choice(("north", "south", "east", "west")),
        n1=first, n2=second, n3=third, n4=rng.randrange(3, 30), n5=rng.randrange(2, first + 1),
        tool_a=next(thing for thing in THINGS if thing.name == tool).a_look,
    )
    fields["box"] = rng.choice(("a round basket", "a blue bucket", "an old hat", "a big bag", "a wooden box"))
    fields["land"] = rng.choice([place for place in PLACES if place.name in LANDS])
    fields["sum"] = first + second
    fields["rest"] = first + second - fields["n5"]
    nested = dict(
        day=rng.choice(DAY), meet=rng.choice(MEET_FRIEND), arrives=rng.choice(ARRIVES), problem=problem,
        solution=solution, fear_sign=fear_sign, fear_cure=fear_cure,
    )
    fields.update({name: expand(rng, template, fields) for name, template in nested.items()})
    return fields


def make_story(rng):
    plot, lesson = rng.choice(PLOTS)
    fields = pick_fields(rng, plot)
    templates = [rng.choice(OPENINGS), *plot]
    if rng.random() < 0.6:
        templates.append(rng.choice(LESSONS[lesson]))
    templates.append(rng.choice(QUIET_ENDINGS if plot is SLEEP else ENDINGS))
    sentences = [expand(rng, template, fields) for template in templates]
    return join_sentences(rng, sentences)


def join_sentences(rng, sentences):
    """One paragraph, or two or three of them: readers of stories meet both."""
    sentences = [sentence[0].upper() + sentence[1:] for sentence in sentences if sentence]
    breaks = set(rng.sample(range(1, len(sentences)), rng.choice((0, 1, 2))))
    text = sentences[0]
    for index, sentence in enumerate(sentences[1:], start=1):
        text += ("\n" if index in breaks else " ") + sentence
    return text
