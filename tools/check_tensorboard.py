#!/usr/bin/env python3
"""Compares what TensorBoard's own reader finds in a run's folder with its metrics.jsonl.

    tools/check_tensorboard.py RUN...        (pip install tensorboard)
"""
import json
import math
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2


def as_fp32(value):
    return math.nan if value is None else struct.unpack("f", struct.pack("f", value))[0]


def expected_scalars(folder):
    series = {}
    with open(f"{folder}/metrics.jsonl", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            step, time = row.pop("step"), row.pop("time")
            for name, value in row.items():
                tag = "eval/" + name[5:] if name.startswith("eval_") else "train/" + name
                series.setdefault(tag, []).append((step, time, as_fp32(value)))
    return series


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
    print(f"{folder}: {sum(map(len, found.values()))} scalars of {len(found)} tags as in metrics.jsonl, "
          f"{len(settings)} hparams, {len(texts)} texts")


if __name__ == "__main__":
    for run in sys.argv[1:]:
        check(run)
