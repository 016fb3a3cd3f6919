#!/usr/bin/env python3
"""Writes src/text/unicode/ranges.cc: which code points are letters, numbers and marks, as the regular expressions of
Hugging Face's tokenizers see them. Python 3.11 runs it: its unicodedata has the Unicode 14 of the oldest Oniguruma that
a supported distribution ships.

    pip install -r tools/requirements-dev.txt
    python tools/make_unicode_ranges.py

The distribution's libraries follow different versions of Unicode; ids must not depend on which one is installed.
"""

import unicodedata
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

TARGET = Path(__file__).resolve().parent.parent / "src" / "text" / "unicode" / "ranges.cc"
CODEPOINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BLOCK = 4096
OLD_UNICODE = "14.0.0"
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co").split()


def matching(expression):
    split = pre_tokenizers.Split(Regex(expression), "removed")
    found = []
    for begin in range(0, len(CODEPOINTS), BLOCK):
        block = CODEPOINTS[begin:begin + BLOCK]
        kept = {c for piece, _ in split.pre_tokenize_str("".join(map(chr, block))) for c in piece}
        found += [c for c in block if chr(c) not in kept]
    return found


def ranges(codepoints):
    result = []
    for c in codepoints:
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def array(name, codepoints):
    return lines_of(f"CodepointRange {name}", [f"{{0x{first:X}, 0x{last:X}}}," for first, last in ranges(codepoints)])


def lines_of(declared, items):
    lines, line = [], "   "
    for item in items:
        if len(line) + 1 + len(item) > 110:
            lines.append(line)
            line = "   "
        line += " " + item
    lines.append(line)
    body = "\n".join(lines).rstrip(",")
    return f"constexpr {declared}[] = {{\n{body}}};\n"


def newer_characters():
    """What OLD_UNICODE gives another general category, or none."""
    if unicodedata.unidata_version != OLD_UNICODE:
        raise SystemExit(f"this Python has Unicode {unicodedata.unidata_version}, not {OLD_UNICODE}: use Python 3.11")
    items = []
    for category in CATEGORIES:
        newer = [c for c in matching(rf"\p{{{category}}}") if unicodedata.category(chr(c)) != category]
        items += [(first, last, category) for first, last in ranges(newer)]
    return lines_of("CategoryRange kNewer",
                    [f'{{0x{first:X}, 0x{last:X}, "{category}"}},' for first, last, category in sorted(items)])


def old_marks():
    """The marks that the library's normalizers know; their tables are older than those of its expressions."""
    strip = normalizers.StripAccents()
    return [c for c in CODEPOINTS if strip.normalize_str(chr(c)) == ""]


def main():
    parts = [array("kLetters", matching(r"\p{L}")), array("kNumbers", matching(r"\p{N}")),
             array("kMarks", matching(r"\p{M}")), array("kPunctuationRanges", matching(r"\p{P}")),
             array("kOldMarks", old_marks()), newer_characters()]
    functions = "\n".join(
        f"std::span<const CodepointRange> {function}() {{\n  return {name};\n}}\n"
        for function, name in (("letter_ranges", "kLetters"), ("number_ranges", "kNumbers"),
                               ("mark_ranges", "kMarks"), ("punctuation_ranges", "kPunctuationRanges"),
                               ("old_mark_ranges", "kOldMarks")))
    functions += "\nstd::span<const CategoryRange> newer_characters() {\n  return kNewer;\n}\n"
    TARGET.write_text(
        "// Which code points are letters, numbers, marks and punctuation. Written by tools/make_unicode_ranges.py.\n"
        '#include "text/unicode/ranges.h"\n\nnamespace snug {\n\nnamespace {\n\n// clang-format off\n' +
        "\n".join(parts) + "// clang-format on\n\n}  // namespace\n\n" + functions + "\n}  // namespace snug\n")


if __name__ == "__main__":
    main()
