#!/usr/bin/env python3
"""Writes src/text/unicode/ranges.cc: which code points are letters, numbers and marks, as the regular expressions of
Hugging Face's tokenizers see them.

    pip install -r tools/requirements-dev.txt
    python tools/make_unicode_ranges.py

The distribution's libraries follow different versions of Unicode; ids must not depend on which one is installed.
"""

from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

TARGET = Path(__file__).resolve().parent.parent / "src" / "text" / "unicode_ranges.cc"
CODEPOINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BLOCK = 4096


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
    items = [f"{{0x{first:X}, 0x{last:X}}}," for first, last in ranges(codepoints)]
    lines, line = [], "   "
    for item in items:
        if len(line) + 1 + len(item) > 110:
            lines.append(line)
            line = "   "
        line += " " + item
    lines.append(line)
    body = "\n".join(lines).rstrip(",")
    return f"constexpr CodepointRange {name}[] = {{\n{body}}};\n"


def old_marks():
    """The marks that the library's normalizers know; their tables are older than those of its expressions."""
    strip = normalizers.StripAccents()
    return [c for c in CODEPOINTS if strip.normalize_str(chr(c)) == ""]


def main():
    parts = [array("kLetters", matching(r"\p{L}")), array("kNumbers", matching(r"\p{N}")),
             array("kMarks", matching(r"\p{M}")), array("kPunctuation", matching(r"\p{P}")),
             array("kOldMarks", old_marks())]
    functions = "\n".join(
        f"std::span<const CodepointRange> {function}() {{\n  return {name};\n}}\n"
        for function, name in (("letter_ranges", "kLetters"), ("number_ranges", "kNumbers"),
                               ("mark_ranges", "kMarks"), ("punctuation_ranges", "kPunctuation"),
                               ("old_mark_ranges", "kOldMarks")))
    TARGET.write_text(
        "// Which code points are letters, numbers, marks and punctuation. Written by tools/make_unicode_ranges.py.\n"
        '#include "text/unicode/ranges.h"\n\nnamespace snug {\n\nnamespace {\n\n// clang-format off\n' +
        "\n".join(parts) + "// clang-format on\n\n}  // namespace\n\n" + functions + "\n}  // namespace snug\n")


if __name__ == "__main__":
    main()
