#!/usr/bin/env python3
"""Runs clang-tidy over src/, some files at a time, and skips what passed before.

A file's result depends on its text, the headers of ours that it reaches, the settings and the version:
where the hash of all of these is in build/tidy/, the file is clean already. Findings fail with clang-tidy
14; other versions know other checks, so theirs are shown and do not fail.
"""

import argparse
import concurrent.futures
import hashlib
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args()

    program = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if not program:
        sys.exit("tidy: clang-tidy is missing; 'make lint' installs it")
    version = version_of(program)
    commands = json.loads((arguments.build / "compile_commands.json").read_text(encoding="utf-8"))
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
    # Without the precompiled headers: those are the compiler's own, and a file must include what it uses.
    for entry in commands:
        entry["command"] = re.sub(r" -Winvalid-pch| -fpch-preprocess| -include \S+", "", entry["command"])
    (PASSED / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")

    def run(file):
        command = [program, "--quiet", "-p", str(PASSED), str(file)]
        # -Wno-unknown-warning-option: the commands are the compiler's, which may not be clang.
        command.insert(1, "--extra-arg=-Wno-unknown-warning-option")
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 0:
            (PASSED / pending[file]).touch()
        return file, result

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for file, result in pool.map(run, pending):
            if result.returncode != 0:
                failed += 1
                print(result.stdout.strip() or result.stderr.strip(), flush=True)
    summary = f"tidy: {len(pending)} files read, {failed} with findings"
    if failed and version == REFERENCE_VERSION:
        sys.exit(summary)
    print(summary if version == REFERENCE_VERSION else f"{summary} (clang-tidy {version}: not held to them)")


if __name__ == "__main__":
    main()
