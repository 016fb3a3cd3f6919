#!/usr/bin/env python3
"""What telling of a run costs: the same training with everything told (a row a step in metrics.jsonl, TensorBoard's file,
run.log, the live line on a terminal, a webhook on this machine with a message for each step) and with as little as can
be, in turns.

    bench/telling.py [--snug build/release/snug] [--rounds 5] [--steps 4000] [--threads N]

Two runs of the same steps differ by some percent on any machine, and telling costs less than that. So the steps are made as
short as they can be (one row of 32 tokens, a model of one narrow layer), a run has many of them, and what a start costs is taken
off by a run with few: what is left is the time that telling takes a step, which is then compared with a step of the recipe as it
is written. Times are those of the process's own threads (user and system), the thread of the webhooks among them.
"""
import argparse
import http.server
import json
import os
import pty
import resource
import shutil
import statistics
import subprocess
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Server(http.server.BaseHTTPRequestHandler):
    messages = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Server.messages += 1
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


SHORT = ["training.per_device_train_batch_size=1", "training.gradient_accumulation_steps=1", "data.max_length=32",
         "lora.r=1", "training.lr_scheduler_type=constant"]
# What is told: settings beside those of a quiet run, and whether on a terminal.
WAYS = {
    "quiet": (["logging.report_to=none"], False),
    "metrics": (["logging.report_to=none", "logging.logging_steps=1"], False),
    "and TensorBoard": (["logging.logging_steps=1"], False),
    "and the live line": (["logging.logging_steps=1"], True),
    "and a message a step": (["logging.logging_steps=1", "logging.webhook_minutes=0",
                              "logging.webhooks=[{kind: json, url_env: BENCH_HOOK}]"], True),
}


def narrow_model(options, folder):
    """A folder with one narrow layer, in the words of the embedded model."""
    shape, source = f"{folder}/shape", f"{ROOT}/models/tiny-story"
    os.mkdir(shape)
    with open(f"{source}/config.json") as file:
        config = json.load(file)
    config.update(hidden_size=16, intermediate_size=16, head_dim=16, num_attention_heads=1, num_key_value_heads=1,
                  num_hidden_layers=1)
    with open(f"{shape}/config.json", "w") as file:
        json.dump(config, file)
    subprocess.run([options.snug, "synth", shape, f"{folder}/model"], check=True, stdout=subprocess.DEVNULL)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(f"{source}/{name}", f"{folder}/model/{name}")
    return [f"model.path={folder}/model", *SHORT]


def train(options, folder, steps, way, url, more):
    """One run; returns the seconds of its own threads."""
    told, terminal = WAYS[way]
    settings = [f"output_dir={folder}/run", f"data.cache_dir={folder}/cache", f"training.max_steps={steps}",
                f"logging.logging_steps={steps}", "training.eval_steps=0", "training.save_strategy=no",
                "training.warmup_ratio=0", *more, *told]
    command = [options.snug, "train", f"{ROOT}/recipes/ship_log.yml", "--overwrite", "--threads", str(options.threads)]
    command += [] if terminal else ["--json"]
    for setting in settings:
        command += ["--set", setting]
    environment = dict(os.environ, BENCH_HOOK=url, TERM="xterm", OMP_WAIT_POLICY="passive")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if terminal:
        reader, writer = pty.openpty()
        child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer)
        os.close(writer)
        try:
            while os.read(reader, 65536):
                pass
        except OSError:  # the child is gone
            pass
        os.close(reader)
        child.wait()
    else:
        child = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    if child.returncode != 0:
        raise SystemExit(f"snug train ended with {child.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def step_us(options, folder, steps, way, url, more=()):
    """What a step takes where the start is taken off."""
    few = steps // 10
    seconds = [train(options, folder, count, way, url, more) for count in (few, few + steps)]
    return 1e6 * (seconds[1] - seconds[0]) / steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=f"{ROOT}/build/release/snug")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/hook"
    with tempfile.TemporaryDirectory() as folder:
        short = narrow_model(options, folder)
        train(options, folder, 1, "quiet", url, short)  # tokens are in the cache then
        rounds = []
        for _ in range(options.rounds):
            rounds.append({way: step_us(options, folder, options.steps, way, url, short) for way in WAYS})
            print(", ".join(f"{way} {us:.0f}" for way, us in rounds[-1].items()), "us", flush=True)
        recipe_us = step_us(options, folder, 60, "quiet", url)
    for way in WAYS:
        costs = sorted(times[way] - times["quiet"] for times in rounds)
        print(f"{way:22}{statistics.median(costs):7.1f} us a step ({costs[0]:.1f} to {costs[-1]:.1f}), "
              f"{100 * statistics.median(costs) / recipe_us:.3f}% of a step of the recipe ({recipe_us / 1000:.1f} ms)")


if __name__ == "__main__":
    main()
