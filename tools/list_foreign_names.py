#!/usr/bin/env python3
"""Lists the fields of the peers' configuration classes, one "class field" a line: tests/goldens/foreign_names.txt.

Needs transformers, peft and trl from PyPI; their sources are read, not imported. A test holds that snug has an answer
to each of these names, so that people who bring a configuration along are told what to do with every line of it.

    tools/list_foreign_names.py > tests/goldens/foreign_names.txt
"""

import ast
import importlib.util
import pathlib

CLASSES = (
    ("transformers", "training_args.py", "TrainingArguments"),
    ("transformers", "training_args_seq2seq.py", "Seq2SeqTrainingArguments"),
    ("peft", "tuners/lora/config.py", "LoraConfig"),
    ("peft", "config.py", "PeftConfig"),
    ("trl", "trainer/sft_config.py", "SFTConfig"),
    ("trl", "trainer/model_config.py", "ModelConfig"),
)


def fields(package, file, name):
    folder = pathlib.Path(importlib.util.find_spec(package).origin).parent
    tree = ast.parse((folder / file).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return [item.target.id for item in node.body if isinstance(item, ast.AnnAssign)]
    raise SystemExit(f"{package}: no class {name} in {file}")


def main():
    for package, file, name in CLASSES:
        for field in sorted(fields(package, file, name)):
            if not field.startswith("_"):
                print(name, field)


if __name__ == "__main__":
    main()
