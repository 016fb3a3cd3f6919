#!/usr/bin/env python3
"""Checks that every file of src/ includes only its own folder and the folders before it.

Also: "folder/file.h" is the only form of include for our own headers, and CUDA stays behind its folder (no
include of backend/cuda and no #if on CUDA outside src/backend/cuda and src/cli). And a type of a header has a
name of its own: two of one name in a program are one to the linker, whatever they hold. Prints file:line of
each offence; exit code 1 if there is one.
"""

import pathlib
import re
import sys
import tempfile

# Lowest first: the order of the layout in CONTRIBUTING.md and of the layers in CMakeLists.txt.
LAYERS = (
    "base io program ops recipe model compile backend plan exec text data fit explain train report watch doctor cli".split()
)
RANK = {name: rank for rank, name in enumerate(LAYERS)}
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
GENERATED = {"snug_commit.h"}  # headers that the build writes
CUDA_ALLOWED = ("backend/cuda/", "cli/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)")
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
TYPE = re.compile(r"^(?:struct|class|union|enum class) (\w+)\b(?!<)[^;]*$")
CUDA_NAME = re.compile(r"CUDA|NVCC", re.IGNORECASE)


def offences_of_line(path, line):
    """The offences in one line of src/<path>; `path` is relative to src/."""
    folder = path.split("/")[0]
    cuda_allowed = path.startswith(CUDA_ALLOWED)
    condition = CONDITION.match(line)
    if condition and CUDA_NAME.search(condition.group(1)) and not cuda_allowed:
        return ["#if on CUDA in shared code: the folder src/backend/cuda is the switch"]
    include = INCLUDE.match(line)
    if not include:
        return []
    quote, header = include.groups()
    target = header.split("/")[0]
    if quote == "<":
        return []
    if header in GENERATED:
        return []
    if "/" not in header or target not in RANK:
        return [f'"{header}" is not of the form "folder/file.h" with a folder of src/']
    found = []
    if RANK[target] > RANK[folder]:
        found.append(f'{folder}/ includes "{header}", but {target}/ comes after {folder}/')
    if header.startswith("backend/cuda/") and not cuda_allowed:
        found.append(f'"{header}" outside src/backend/cuda and src/cli')
    return found


class TypeNames:
    """The types of headers, with the place that defines each."""

    def __init__(self):
        self.places = {}
        self.namespace = ""

    def offences_of_line(self, path, number, line):
        self.namespace = "" if number == 1 else self.namespace
        namespace = NAMESPACE.match(line)
        self.namespace = namespace.group(1) if namespace else self.namespace
        named = TYPE.match(line) if path.endswith((".h", ".cuh")) else None
        if not named:
            return []
        place = self.places.setdefault((self.namespace, named.group(1)), f"{path}:{number}")
        return [] if place == f"{path}:{number}" else [f"{named.group(1)} is also a type of {place}"]


def check(source_folder):
    """All offences under `source_folder` as (file, line number, text)."""
    found = []
    types = TypeNames()
    for file in sorted(source_folder.rglob("*")):
        if file.suffix not in SUFFIXES:
            continue
        path = file.relative_to(source_folder).as_posix()
        if path.split("/")[0] not in RANK:
            found.append((file, 1, "is in no layer: name its folder in tools/check_layers.py"))
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            offences = offences_of_line(path, line) + types.offences_of_line(path, number, line)
            found += [(file, number, text) for text in offences]
    return found


def self_test():
    files = {
        "base/good.h": "#include <vector>\n",
        "plan/good.cc": '#include "plan/plan.h"\n#include "backend/backend.h"\n#ifdef NDEBUG\n#endif\n',
        "cli/main.cc": '#include "backend/cuda/cuda_backend.h"\n',
        "backend/cuda/gemm.cu": "#ifdef __CUDA_ARCH__\n#endif\n",
        "ops/upwards.cc": '#include "base/check.h"\n#include "exec/executor.h"\n',
        "io/bare.cc": '#include "json.h"\n',
        "train/cuda.cc": '#include "backend/cuda/arena.h"\n#if defined(SNUG_CUDA)\n#endif\n',
        "data/facts.h": "namespace snug {\nstruct Finding {\n};\nstruct Row;\nenum class Kind { a };\n",
        "explain/story.h": "namespace snug {\nstruct Finding {\n};\nstruct Row;\n",
        "watch/page.h": "namespace snug::watch {\nenum class Kind { b };\n",
        "utils/helper.h": "\n",
    }
    expected = ["explain/story.h:2", "io/bare.cc:1", "ops/upwards.cc:2", "train/cuda.cc:1", "train/cuda.cc:2", "utils/helper.h:1"]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        found = [f"{file.relative_to(root).as_posix()}:{number}" for file, number, _ in check(root)]
    if found != expected:
        sys.exit(f"layers: the self-test found {found}, expected {expected}")


def main():
    if "--self-test" in sys.argv[1:]:
        self_test()
        return
    root = pathlib.Path(__file__).resolve().parent.parent
    found = check(root / "src")
    for file, number, text in found:
        print(f"{file.relative_to(root)}:{number}: {text}")
    if found:
        sys.exit(f"layers: {len(found)} offences; the order is {' '.join(LAYERS)}")
    print("layers: in order")


if __name__ == "__main__":
    main()
