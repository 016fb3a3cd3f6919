#!/usr/bin/env python3
"""Checks that what snug saved means the same to PEFT: loads it there and compares the logits with snug's own.

    pip install -r tools/requirements-dev.txt
    python tools/check_adapter.py MODEL_DIR ADAPTER_DIR LOGITS_JSON

ADAPTER_DIR "-" checks a whole model folder instead. LOGITS_JSON holds one sequence as snug computed it in fp32:
{"ids": [token, ...], "source": [token, ...], "logits": [[one row of the vocabulary], ...]} with a row for each token
of "ids". A "source" is what an encoder read; it is empty for a decoder-only model.
Exit code 0: every logit agrees within the tolerance; 1: some do not; 2: the files cannot be compared.
"""

import argparse
import json
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

TOLERANCE = 1e-4


def read_logits(path):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    return document["ids"], document["source"], torch.tensor(document["logits"], dtype=torch.float64)


def reference_logits(model_dir, adapter_dir, ids, source):
    """(tokens, vocabulary), computed in float32 whatever the files store."""
    kind = AutoModelForSeq2SeqLM if source else AutoModelForCausalLM
    model = kind.from_pretrained(model_dir, dtype=torch.float32, local_files_only=True)
    if adapter_dir != "-":
        model = PeftModel.from_pretrained(model, adapter_dir).float()
        warn_about_untouched_adapter(model)
    with torch.no_grad():
        inputs = dict(input_ids=torch.tensor([ids]))
        if source:
            inputs = dict(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([ids]))
        return model.eval()(**inputs).logits[0].double()


def warn_about_untouched_adapter(model):
    """PEFT leaves B at zero when no name in the file matches, which would make the comparison say nothing."""
    if not any(parameter.any() for name, parameter in model.named_parameters() if "lora_B" in name):
        print("warning: every lora_B is zero, so the adapter changes nothing", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model_dir")
    parser.add_argument("adapter_dir", help='a PEFT folder, or "-" for none')
    parser.add_argument("logits_json")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    arguments = parser.parse_args()

    ids, source, logits = read_logits(arguments.logits_json)
    expected = reference_logits(arguments.model_dir, arguments.adapter_dir, ids, source)
    if logits.shape != expected.shape:
        print(f"{arguments.logits_json}: logits are {tuple(logits.shape)}, expected {tuple(expected.shape)}")
        return 2
    difference = (logits - expected).abs().max().item()
    agrees = difference <= arguments.tolerance  # false for NaN, too
    print(f"{len(ids)} tokens: largest difference {difference:.2e}, allowed {arguments.tolerance:.0e}: "
          f"{'equal' if agrees else 'NOT EQUAL'}")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
