#!/usr/bin/env python3
"""Writes tests/goldens/regex.json: what Hugging Face's tokenizers make of texts with regular expressions of many
kinds, as a Split pre-tokenizer, a Replace normalizer and a Replace decoder.

    pip install -r tools/requirements-dev.txt
    python tools/make_regex_references.py

Each expression has a case for each of the texts. One that tokenizers refuse has none: snug must refuse it too.
"""

import json
from pathlib import Path

from tokenizers import Regex, decoders, normalizers, pre_tokenizers

TARGET = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "regex.json"
BEHAVIORS = ["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"]
NAMES = ["isolated", "removed", "contiguous", "merged_with_previous", "merged_with_next"]
CONTENT = "·"

# Each expression is tried on all of these: words, numbers, line ends, signs, scripts, marks.
TEXTS = [
    "Hello, world's 1234567 ab",
    "a\n\nb \r\n c\td\n",
    "$a+b<c> x_1=^`|~ {,2} #&&",
    "aaaa aab aaa{2} bab",
    "naïve cafe\u0301 ÅngströmSTRASSE ß",
    "日本語の テキスト、한국어 ー・々",
    "\u00a0x\u2028y\u3000z\u200b\u0085\u180e.",
    "٣٤½Ⅷ②é\U0001f999\U0001f468\u200d\U0001f469 😀!",
    "DON'T we'LL I\u017f 'ſ K\u212a aB0xF",
]

# What published tokenizers split by.
PUBLISHED = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[\r\n]",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽ]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"(?=(\d{3})+(?!\d))",
    r"\d{1,3}(?=(?:\d{3})*\b)",
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}|\s+",
    r"(?<=[a-z])(?=[A-Z])",
    r" {2,}",
    r"\A +| +\z",
    r"▁| ",
]

# What Oniguruma has in common with other engines, and where it goes its own way.
SYNTAX = [
    r"", r"a*", r"a+?", r"a??", r"(?=b)", r"(?!b)", r"(?<=a)", r"(?<!a)", r"\b", r"\B", r"x*|b", r"|a", r"a|",
    r"a{2}", r"a{2}+", r"a{1,2}+", r"a{2,}+", r"a{,2}", r"a{2,1}", r"a{,}", r"a{", r"a{2", r"{2}", r"a{2}{2}",
    r"a{2}?", r"a++b", r"a*+a", r"a?+a", r"(?>a+)b", r"(?>a|aa)b",
    r"^", r"$", r"^.", r".$", r"^\s*$", r"\A", r"\Z", r"\z", r"\G.", r"^a|b$",
    r".", r".+", r"(?m).+", r"(?m:.)", r"(?s).+", r"(?i)a+", r"(?i:AB)", r"(?i)straße", r"(?i)ß", r"(?i)k", r"(?i)s", r"(?i)å",
    r"(?x) a b # note", r"(?-i)a", r"(?im-x:A.)", r"(?W)\w+", r"(?D)\d+", r"(?S)\s+", r"(?P)\w+", r"(?P<n>a)(?P=n)", r"(?y{g}).",
    r"[a-c&&b-d]+", r"[\w&&[^a]]+", r"[^a&&b]", r"[a[bc]]+", r"[[a-z]&&[^aeiou]]+", r"[a-]", r"[]a]", r"[^]a]", r"[]", r"[a-\d]",
    r"[&&]", r"[a&&]", r"[#&&]+", r"[\]\[]", r"[^\n]+", r"[\x61-\x63]+", r"[あ-ん]+", r"[z-a]", r"[[:foo:]]",
    r"\h+", r"\H+", r"[\h]+", r"\R", r"\X", r"\N+", r"\O", r"\K", r"a\Kb", r"\y", r"\Y",
    r"\w+", r"\W+", r"\d+", r"\D+", r"\s+", r"\S+", r"[\w]+", r"[^\w\s]+", r"[^\W\d_]+",
    r"[[:punct:]]", r"[[:punct:]]+", r"[^[:punct:]]+", r"[[:^punct:]]+", r"[a[:punct:]]", r"[:punct:]", r"[[:punct:]&&[^$]]",
    r"\[[:punct:]]", r"\p{Punct}", r"\p{punct}+", r"\p{^Punct}+",
    r"[[:alpha:]]+", r"[[:digit:]]+", r"[[:alnum:]]+", r"[[:space:]]+", r"[[:upper:]]+", r"[[:lower:]]+", r"[[:blank:]]+",
    r"[[:cntrl:]]+", r"[[:graph:]]+", r"[[:print:]]+", r"[[:xdigit:]]+", r"[[:word:]]+", r"[[:ascii:]]+", r"[[:^alpha:]]+",
    r"\p{L}+", r"\p{Letter}+", r"\p{l}", r"\p{Lu}", r"\p{Ll}+", r"\p{Lo}+", r"\p{Lm}", r"\p{M}", r"\p{Mn}", r"\p{N}+", r"\p{Nd}+",
    r"\p{Nl}", r"\p{No}", r"\p{P}+", r"\p{S}+", r"\p{Sc}", r"\p{Sk}", r"\p{Sm}", r"\p{So}", r"\p{Z}+", r"\p{Zs}", r"\p{C}", r"\p{Cf}",
    r"\P{L}+", r"\p{^L}+", r"[^\p{L}\p{N}]+", r"\p{Han}", r"\p{Hiragana}+", r"\p{Katakana}+", r"\p{Latin}+", r"\p{Hangul}+",
    r"\p{Arabic}", r"\p{Common}+", r"\p{Inherited}", r"\p{Alphabetic}+", r"\p{White_Space}+", r"\p{Emoji}", r"\p{Extended_Pictographic}",
    r"\p{Script=Han}", r"\p{Is_L}", r"\p{NoSuchName}", r"\pL", r"\p{InBasicLatin}+",
    r"(a)(b)\1", r"(a)\2", r"(?<x>a)\k<x>", r"(?<x>a|b\g<x>)", r"(?<p>\((?:[^()]|\g<p>)*\))", r"\g<1>", r"(?:a|b)+", r"(?#note)a",
    r"(a)?(?(1)b|c)", r"(?~b)", r"(?~\|b|a+)", r"(?<=a|bb)c", r"(?<=a+)b", r"(?<!a.*)b", r"(*FAIL)", r"a(*FAIL)|b", r"(*ERROR)",
    r"\x61", r"\x{61}", r"\x{1F600}", r"\u0061", r"\101", r"\07", r"\0", r"\t|\n", r"\e", r"\a", r"\cA", r"\C-a", r"\M-a", r"\x80",
    r"\xC3\xA9", r"\xC3", r"\x{D800}", r"\x{110000}", r"\Qa+b\E", r"\Qa", r"\<", r"\>", r"\'", r"\`", r"\-", r"\_", r"\é", r"\1",
    r"(", r")", r"[", r"]", r"*", r"+", r"?", r"a**", r"a+*", r"a|*", "(?<n", r"(?", r"(?z)", r"\p", r"\p{", "\\", r"(?<=\Ka)b",
]

# Texts of "String" patterns, found as they are.
LITERALS = ["", "a", "ab", " ", "$", "a+b", "{,2}", "\n", "é", "日本", "·"]


def split(pattern, behavior, invert, text):
    return [piece for piece, _ in pre_tokenizers.Split(pattern, NAMES[behavior], invert).pre_tokenize_str(text)]


def case(pattern, text, turn):
    behavior, invert = turn % 5, turn // 5 % 2 == 1
    try:
        replaced = normalizers.Replace(pattern, CONTENT).normalize_str(text)
        pieces = split(pattern, behavior, invert, text)
        decoded = decoders.Replace(pattern, CONTENT).decode([text])
    except BaseException:  # a panic: the expression cannot be matched against this text
        return {"fails": True}
    if decoded != replaced:
        raise SystemExit(f"{pattern}: a decoder replaces {text!r} by {decoded!r}, a normalizer by {replaced!r}")
    result = {"replaced": replaced, "behavior": BEHAVIORS[behavior], "pieces": pieces}
    return {**result, "invert": True} if invert else result


def entry(index, kind, source):
    try:
        pattern = Regex(source) if kind == "Regex" else source
        pre_tokenizers.Split(pattern, "isolated")
    except Exception:
        return {kind: source, "cases": []}
    return {kind: source, "cases": [case(pattern, text, index + i) for i, text in enumerate(TEXTS)]}


def main():
    sources = [("Regex", source) for source in PUBLISHED + SYNTAX] + [("String", source) for source in LITERALS]
    entries = [entry(i, kind, source) for i, (kind, source) in enumerate(sources)]
    compact = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    TARGET.write_text(f'{{"texts":{compact(TEXTS)},\n"expressions":[\n' + ",\n".join(map(compact, entries)) + "\n]}\n",
                      encoding="utf-8")
    refused = sum(not e["cases"] for e in entries)
    print(f"{TARGET}: {len(entries)} expressions, {refused} of them refused, {sum(len(e['cases']) for e in entries)} cases, "
          f"{sum('fails' in c for e in entries for c in e['cases'])} of them fail")


if __name__ == "__main__":
    main()
