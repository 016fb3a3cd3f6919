#!/usr/bin/env python3
"""Compares what TensorBoard finds in a run's folder with its metrics.jsonl: scalars and samples by its own reader, and
samples and hparams as its server gives them to the page that shows them.

    tools/check_tensorboard.py RUN...        (pip install tensorboard)
"""
import json
import math
import os
import struct
import sys
import time
import urllib.parse
import urllib.request

from tensorboard import program
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2


def as_fp32(value):
    return math.nan if value is None else struct.unpack("f", struct.pack("f", value))[0]


def rows_of(folder):
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def expected_scalars(folder):
    series = {}
    for row in rows_of(folder):
        if "sample" in row:
            continue
        step, wall_time = row.pop("step"), row.pop("time")
        for name, value in row.items():
            tag = "eval/" + name[5:] if name.startswith("eval_") else "train/" + name
            series.setdefault(tag, []).append((step, wall_time, as_fp32(value)))
    return series


def expected_samples(folder):
    """By tag and step: the lines of what the model wrote."""
    return {(f"samples/{row['sample']}", row["step"]): row["text"].splitlines()
            for row in rows_of(folder) if "sample" in row}


def has_lines(text, lines):
    return all("    " + line in text.splitlines() for line in lines)


def same(a, b):
    return a[:2] == b[:2] and (a[2] == b[2] or (math.isnan(a[2]) and math.isnan(b[2])))


def check(folder):
    reader = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    expected = expected_scalars(folder)
    found = {tag: [(e.step, e.wall_time, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    if expected.keys() != found.keys():
        sys.exit(f"{folder}: tags differ: {sorted(expected.keys() ^ found.keys())}")
    for tag, points in expected.items():
        if len(points) != len(found[tag]) or not all(map(same, points, found[tag])):
            sys.exit(f"{folder}: {tag}: metrics.jsonl has {points[:3]}..., TensorBoard reads {found[tag][:3]}...")
    content = reader.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    settings = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
    texts = [tag for tag in reader.Tags()["tensors"] if reader.SummaryMetadata(tag).plugin_data.plugin_name == "text"]
    written = {(tag, event.step): event.tensor_proto.string_val[0].decode()
               for tag in texts for event in reader.Tensors(tag)}
    samples = expected_samples(folder)
    if samples.keys() != written.keys() or not all(has_lines(written[key], samples[key]) for key in samples):
        sys.exit(f"{folder}: samples differ: {sorted(samples)} in metrics.jsonl, {sorted(written)} in TensorBoard")
    shown = check_pages(folder, samples, settings)
    print(f"{folder}: {sum(map(len, found.values()))} scalars of {len(found)} tags as in metrics.jsonl, "
          f"{len(settings)} hparams, {len(samples)} samples; its pages get {shown}")


def ask(url, body=None):
    request = urllib.request.Request(url, data=body and json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def check_pages(folder, samples, settings):
    """The same by TensorBoard's server, which may take a while to read."""
    server = program.TensorBoard()
    server.configure(argv=[None, "--logdir", folder, "--port", "0", "--load_fast", "false"])
    url = server.launch()
    for _ in range(60):
        runs = ask(url + "data/runs")
        experiment = ask(url + "data/plugin/hparams/experiment", {"experimentName": ""}) if runs else {}
        tags = ask(url + "data/plugin/text/tags") if runs else {}
        if experiment.get("hparamInfos") and (not samples or any(tags.values())):
            break
        time.sleep(1)
    names = {info["name"] for info in experiment.get("hparamInfos", [])}
    if not names or not names <= set(settings):
        sys.exit(f"{folder}: TensorBoard's page of hparams has {sorted(names)[:5]}...")
    for (tag, step), lines in samples.items():
        query = urllib.parse.urlencode({"run": runs[0], "tag": tag})
        texts = {event["step"]: event["text"] for event in ask(f"{url}data/plugin/text/text?{query}")}
        if step not in texts or "<code>" not in texts[step]:
            sys.exit(f"{folder}: TensorBoard's page of texts has no {tag} at step {step}: {sorted(texts)}")
    return f"{len(names)} hparams and all samples"


if __name__ == "__main__":
    for run in sys.argv[1:]:
        check(os.path.abspath(run))
