#!/usr/bin/env python3
"""Checks the length of files and functions.

Files: a note above 300 lines, an offence above 600. Functions: a note above 80 lines, an offence above 100.
Functions are found by their braces, after comments, strings and preprocessor lines are blanked: a block
that follows a parameter list, outside any other function, is one. Exit code 1 if there is an offence.
"""

import pathlib
import re
import sys

FOLDERS = ("src", "tests", "fuzz", "bench", "tools")
CODE_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
SCRIPT_SUFFIXES = {".py", ".sh"}
FILE_NOTE, FILE_LIMIT = 300, 600
FUNCTION_NOTE, FUNCTION_LIMIT = 80, 100

# In one pass, so that a quote in a comment and a // in a string are both read right. A digit separator
# (1'000) is no quote, hence the look-behind.
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
NOT_A_FUNCTION = re.compile(r"^\s*(?:namespace|class|struct|union|enum|extern\s*$)\b")
PARAMETERS = re.compile(r"([~\w]+|operator\s*[^\s\w(]+|operator\s*\(\s*\))\s*\(")


def blank(text):
    """`text` with everything that is not code as spaces; line ends stay."""
    return NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def function_name(head):
    """The name of the function whose head is `head` (the text before its brace), or None."""
    head = re.sub(r"^\s*(?:(?:public|private|protected)\s*:)+", "", head)
    head = re.sub(r"^\s*template\s*<[^{}]*?>\s*(?=[\w:\[])", "", head).strip()
    if not head or NOT_A_FUNCTION.match(head):
        return None
    parameters = PARAMETERS.search(head)
    if not parameters:
        return None
    if "=" in head[: parameters.start()]:  # an initialiser that calls something
        return None
    return parameters.group(1)


def functions(text):
    """(name, first line, line count) of each function in `text`."""
    code = blank(text)
    found = []
    depth = 0
    inside = None  # (name, first line, depth of its brace)
    head_start = 0
    for match in re.finditer(r"[{};]", code):
        mark, position = match.group(), match.start()
        if mark == "{":
            if inside is None:
                head = code[head_start:position]
                name = function_name(head)
                if name:
                    first = position - len(head.lstrip())
                    inside = (name, code.count("\n", 0, first) + 1, depth)
            depth += 1
        elif mark == "}":
            depth -= 1
            if inside and depth == inside[2]:
                last = code.count("\n", 0, position) + 1
                found.append((inside[0], inside[1], last - inside[1] + 1))
                inside = None
        if inside is None:
            head_start = position + 1
    return found


def check_text(path, text, is_code):
    """(offences, notes) of one file."""
    offences, notes = [], []
    lines = text.count("\n")
    if lines > FILE_LIMIT:
        offences.append(f"{path}:1: {lines} lines; the limit is {FILE_LIMIT}")
    elif lines > FILE_NOTE:
        notes.append(f"{path}:1: {lines} lines")
    for name, first, length in functions(text) if is_code else []:
        if length > FUNCTION_LIMIT:
            offences.append(f"{path}:{first}: {name} has {length} lines; the limit is {FUNCTION_LIMIT}")
        elif length > FUNCTION_NOTE:
            notes.append(f"{path}:{first}: {name} has {length} lines")
    return offences, notes


def self_test():
    body = "  call(1'000, \"}{\");  // }\n"
    text = (
        "#define BLOCK(x) {\n"
        "namespace snug {\n"
        "const std::vector<int> kTable = make({1, 2});\n"
        "struct Shape {\n  int rank() const { return 1; }\n  int dims[2] = {1, 2};\n};\n"
        "template <typename T>\nvoid middle(const T& value) {\n" + body * 90 + "}\n"
        "Shape::Shape(int rank) : rank_(rank) {\n" + body * 3 + "}\n"
        "auto last(int count) -> std::vector<int> {\n  if (count) {\n" + body * 120 + "  }\n}\n"
        "}  // namespace snug\n"
    )
    found = functions(text)
    expected = [("rank", 5, 1), ("middle", 8, 93), ("Shape", 101, 5), ("last", 106, 124)]
    if found != expected:
        sys.exit(f"sizes: the self-test found {found}, expected {expected}")
    offences, notes = check_text("a.cc", text, True)
    if len(offences) != 1 or len(notes) != 1:
        sys.exit(f"sizes: the self-test found {offences} and {notes}, expected one each")
    offences, _ = check_text("a.py", "\n" * (FILE_LIMIT + 1), False)
    if len(offences) != 1:
        sys.exit(f"sizes: the self-test found {offences} in a file of {FILE_LIMIT + 1} lines")


def main():
    if "--self-test" in sys.argv[1:]:
        self_test()
        return
    root = pathlib.Path(__file__).resolve().parent.parent
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*"))]
    offences, notes = [], []
    for file in files:
        if file.suffix in CODE_SUFFIXES | SCRIPT_SUFFIXES:
            text = file.read_text(encoding="utf-8")
            result = check_text(file.relative_to(root), text, file.suffix in CODE_SUFFIXES)
            offences += result[0]
            notes += result[1]
    for note in notes:
        print(f"note: {note}")
    for offence in offences:
        print(offence)
    if offences:
        sys.exit(f"sizes: {len(offences)} offences")
    print(f"sizes: within the limits, {len(notes)} notes")


if __name__ == "__main__":
    main()
