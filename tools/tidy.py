#!/usr/bin/env python3
"""Runs clang-tidy over src/, some processes at a time, and skips what passed before.

clang-tidy spends most of its time in the system's headers, so some files of a folder are read as one. A batch with
findings, or with names that clash, is read again file by file: that is what is told. In a batch the files stand the
other way round than where the compiler joins them (cmake/SnugJoin.cmake), so that an include that a file does not have
itself is missing in one of the two.

A file's result depends on its text, the headers of ours that it reaches, the settings and the version:
where the hash of all of these is in build/tidy/, the file is clean already. Findings fail with clang-tidy
14; other versions know other checks, so theirs are shown and do not fail.
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PASSED = ROOT / "build" / "tidy"
REFERENCE_VERSION = 14
BATCH = 6
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def reached(file, seen):
    """Adds `file` and every header of ours that it includes, however deep, to `seen`."""
    if file in seen or not file.is_file():
        return
    seen.add(file)
    for header in INCLUDE.findall(file.read_text(encoding="utf-8")):
        reached(SOURCE / header, seen)


def digest(file, common):
    seen = set()
    reached(file, seen)
    state = hashlib.sha256(common)
    for part in sorted(seen):
        state.update(str(part.relative_to(ROOT)).encode() + b"\0" + part.read_bytes() + b"\0")
    return state.hexdigest()


def version_of(program):
    text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"version (\d+)", text).group(1))


def alone(entry):
    """The command of each file that the compiler reads in `entry`, as if it were read by itself."""
    unit = entry["file"]
    if "/Unity/" not in unit:
        return [entry]
    files = INCLUDE.findall(pathlib.Path(unit).read_text(encoding="utf-8"))
    return [{**entry, "file": file, "command": entry["command"].replace(unit, file)} for file in files]


def batches_of(files, entries, commands):
    """(unit, files) pairs: the unit is a file that includes all of its files, with a command in `commands`."""
    batches = []
    for _, members in itertools.groupby(files, key=lambda file: file.parent):
        members = list(members)
        for start in range(0, len(members), BATCH):
            batch = members[start : start + BATCH]
            unit = PASSED / f"batch_{len(batches)}.cc" if len(batch) > 1 else None
            if unit:
                unit.write_text("".join(f'#include "{file}"\n' for file in reversed(batch)), encoding="utf-8")
                first = entries[batch[0]]
                commands.append({**first, "file": str(unit), "command": first["command"].replace(str(batch[0]), str(unit))})
            batches.append((unit, batch))
    return batches


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args()

    program = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if not program:
        sys.exit("tidy: clang-tidy is missing; 'make lint' installs it")
    version = version_of(program)
    compiled = json.loads((arguments.build / "compile_commands.json").read_text(encoding="utf-8"))
    commands = [command for entry in compiled for command in alone(entry)]
    settings = (ROOT / ".clang-tidy").read_bytes() + str(version).encode()
    pending = {}
    for entry in commands:
        file = pathlib.Path(entry["file"])
        if SOURCE in file.parents and file.suffix == ".cc":
            # The folder of the checkout changes no finding.
            key = digest(file, settings + entry["command"].replace(str(ROOT), ".").encode())
            if not (PASSED / key).exists():
                pending[file] = key
    PASSED.mkdir(parents=True, exist_ok=True)
    # Without the precompiled headers, which are the compiler's own.
    for entry in commands:
        entry["command"] = re.sub(r" -Winvalid-pch| -fpch-preprocess| -include \S+", "", entry["command"])
    batches = batches_of(sorted(pending), {pathlib.Path(entry["file"]): entry for entry in commands}, commands)
    (PASSED / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")

    # -Wno-unknown-warning-option: the commands are the compiler's, which may not be clang.
    tidy = [program, "--extra-arg=-Wno-unknown-warning-option", "--quiet", "-p", str(PASSED)]
    whole = ["--checks=-bugprone-suspicious-include", r"--header-filter=/src/[a-z]+/.*\.(h|cc)$"]

    def run(batch):
        unit, files = batch
        if unit and subprocess.run(tidy + whole + [str(unit)], capture_output=True).returncode == 0:
            results = []
        else:
            results = [subprocess.run(tidy + [str(file)], capture_output=True, text=True) for file in files]
        failed = [result for result in results if result.returncode != 0]
        if not failed:
            for file in files:
                (PASSED / pending[file]).touch()
        return failed

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for results in pool.map(run, batches):
            for result in results:
                failed += 1
                print(result.stdout.strip() or result.stderr.strip(), flush=True)
    summary = f"tidy: {len(pending)} files read, {failed} with findings"
    if failed and version == REFERENCE_VERSION:
        sys.exit(summary)
    print(summary if version == REFERENCE_VERSION else f"{summary} (clang-tidy {version}: not held to them)")


if __name__ == "__main__":
    main()
