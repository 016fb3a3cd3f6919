#!/usr/bin/env python3
"""Trains the embedded model's tokenizer, and writes the vectors that snug's own tokenizer is tested against.

    pip install -r tools/requirements-dev.txt
    python3 tools/make_corpus.py
    python tools/make_tokenizer.py

A byte-level BPE of 1024 entries: <s>, </s> and <pad>, the 256 bytes, and 765 merges learned from the stories and the
ship's logs. Changing it makes the committed weights useless: train the model again afterwards.
"""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = REPOSITORY / "recipes" / "data"
MODEL = REPOSITORY / "models" / "tiny-story"
VECTORS = REPOSITORY / "tests" / "goldens" / "references" / "tiny_story_tokens.json"
SPECIAL_TOKENS = ["<s>", "</s>", "<pad>"]
VOCABULARY = 1024
MAX_LENGTH_TOKENS = 512

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n ", "\t", "\r\n", "\n  x", "x  \n", "a", " a", "  a", "   a b",
    "Once upon a time, there was a small fox named Pip.",
    "Pip lived by the river. The water ran bright and cold over the stones.",
    "Log: fox, river, lantern\n",
    "Log: fox, river, lantern\nDay 3. Wind north, light. Fox on watch.",
    "\"Where is my kite?\" she cried.\n\"Do not worry,\" said Tom.",
    "It's, it'll, we're, they've, I'd, I'm, don't, Rosa's",
    "IT'S NOT 'quoted' 's 't 're 've 'm 'll 'd",
    "ALL CAPITALS AND CamelCase snake_case kebab-case",
    "0", "42", "1234567890", "3.14159", "1,000,000", "Day 99. Day 100.", "7apples and b52",
    "Hello, world!", "Hello,world!", "Wait... what?!", "(brackets) [square] {curly} <angle>", "a--b---c — d – e",
    "C++ is not C#; 50% of $20 = $10 & more @ home", "x=y+z*2/(3-1)^4", "https://example.org/a_b?c=d&e=f#g",
    "tabs\tand\t\tmore\ttabs", "trailing spaces   ", "   leading spaces", "two  spaces   three    four",
    "line one\nline two\n\nline four\n", "windows\r\nline\r\nends", "non-breaking\u00a0space and\u2003em space",
    "caf\u00e9 na\u00efve r\u00e9sum\u00e9 \u00fcber stra\u00dfe", "cafe\u0301 combining", "\u00e6\u00f8\u00e5 \u00c6\u00d8\u00c5",
    "\u0417\u0434\u0440\u0430\u0432\u0441\u0442\u0432\u0443\u0439, \u043c\u0438\u0440!", "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "\u3053\u3093\u306b\u3061\u306f \u4e16\u754c",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0661\u0662\u0663 \u00bd \u00b2 \u2167 digits",
    "\U0001f98a", "fox \U0001f98a and owl \U0001f989!", "\U0001f468\u200d\U0001f469\u200d\U0001f467 family", "\U0001f44d\U0001f3fd thumb",
    "zero\u200bwidth \ufeffmark", "null\u0000inside", "\u007f\u0080\u00ad", "\U0010ffff\ufffd",
    "<s>", "</s>", "<pad>", "<s>Once upon a time</s>", "a<s>b", "a <s> b", "< s >", "<s", "<S>", "<s></s><pad><s>",
    "<s>\n</s>", "the the the the the the the the", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "supercalifragilistic",
    "The lighthouse keeper wrote: \"All well. Crew tired. Sea calm.\"\n",
]


def read_texts():
    for name in ("stories.jsonl", "ship_log_train.jsonl"):
        with open(DATA / name, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                yield row["text"] if "text" in row else "\n".join(turn["content"] for turn in row["messages"])


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(read_texts(), trainer)
    assert tokenizer.get_vocab_size() == VOCABULARY
    return tokenizer


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_vectors(tokenizer):
    rows = []
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        rows.append({
            "text": text,
            "ids": ids,
            "decoded": tokenizer.decode(ids, skip_special_tokens=False),
            "decoded_without_special": tokenizer.decode(ids, skip_special_tokens=True),
        })
        assert rows[-1]["decoded"] == text, text
    VECTORS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"{VECTORS.name}: {len(rows)} texts")


def main():
    tokenizer = train()
    MODEL.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(MODEL / "tokenizer.json"))
    start, end, padding = SPECIAL_TOKENS
    write_json(MODEL / "tokenizer_config.json", {
        "add_bos_token": False, "add_eos_token": False, "add_prefix_space": False, "bos_token": start,
        "clean_up_tokenization_spaces": False, "eos_token": end, "model_max_length": MAX_LENGTH_TOKENS,
        "pad_token": padding, "tokenizer_class": "PreTrainedTokenizerFast",
    })
    write_vectors(Tokenizer.from_file(str(MODEL / "tokenizer.json")))
    tokens = characters = longest = stories = 0
    for text in read_texts():
        count = len(tokenizer.encode(text).ids)
        tokens, characters, longest, stories = tokens + count, characters + len(text), max(longest, count), stories + 1
    print(f"{stories} texts, {tokens} tokens, {characters / tokens:.2f} characters a token, longest {longest} tokens")


if __name__ == "__main__":
    main()
