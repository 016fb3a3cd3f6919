#!/usr/bin/env python3
"""Writes the tables of what Hugging Face takes for a key that a file leaves out.

    pip install -r tools/requirements-dev.txt
    python tools/make_default_tables.py

src/model/config_defaults.cc: config.json, by the config class of each model type that snug reads.
src/train/peft_defaults.cc: adapter_config.json, by PEFT's LoraConfig.
"""

import dataclasses
import json
from pathlib import Path

import peft
import transformers
from transformers import CONFIG_MAPPING

SOURCE = Path(__file__).resolve().parent.parent / "src"
MODEL_TYPES = ("llama", "mistral", "ministral", "qwen2", "qwen3", "phi3", "t5", "mt5")


def default_of(field):
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def config_defaults(model_type):
    """The fields that the class itself declares; its parents' are no shapes. What they hold after __post_init__ is
    derived from the others and therefore no default."""
    config_class = CONFIG_MAPPING[model_type]
    own = config_class.__dict__["__annotations__"]
    defaults = {field.name: default_of(field) for field in dataclasses.fields(config_class) if field.name in own}
    if "rope_parameters" in defaults:
        del defaults["rope_parameters"]
        defaults["rope_theta"] = config_class.default_theta
    return dict(sorted(defaults.items()))


def lora_defaults():
    """As save_pretrained writes them: without the keys that only say where the adapter comes from."""
    written = peft.LoraConfig().to_dict()
    about = {"peft_type", "task_type", "base_model_name_or_path", "revision", "inference_mode", "auto_mapping",
             "peft_version"}
    return {key: None if value is None else json.loads(json.dumps(value)) for key, value in sorted(written.items())
            if key not in about}


def raw_json(values):
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()]
    return 'R"({\n' + ",\n".join(lines) + '\n})"'


def write_config_defaults():
    entries = ",\n".join(f'    {{"{name}", {raw_json(config_defaults(name))}}}' for name in MODEL_TYPES)
    (SOURCE / "model" / "config_defaults.cc").write_text(f"""\
// Written by tools/make_default_tables.py from the config classes of transformers {transformers.__version__}. Do not edit.
#include "model/config_defaults.h"

#include <array>

namespace snug {{
namespace {{

constexpr std::array<ConfigDefaults, {len(MODEL_TYPES)}> kDefaults = {{{{
{entries},
}}}};

}}  // namespace

std::span<const ConfigDefaults> config_defaults() {{
  return kDefaults;
}}

}}  // namespace snug
""")


def write_lora_defaults():
    (SOURCE / "train" / "peft_defaults.cc").write_text(f"""\
// Written by tools/make_default_tables.py from the LoraConfig of PEFT {peft.__version__}. Do not edit.
#include "train/peft_defaults.h"

namespace snug {{

std::string_view lora_config_defaults() {{
  return {raw_json(lora_defaults())};
}}

}}  // namespace snug
""")


if __name__ == "__main__":
    write_config_defaults()
    write_lora_defaults()
