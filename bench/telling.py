#!/usr/bin/env python3
"""What telling of a run costs: the same training with everything told (a row a step in metrics.jsonl, TensorBoard's file,
run.log, the live line on a terminal, a webhook on this machine with a message for each step) and with as little as can
be, in turns.

    bench/telling.py [--snug build/release/snug] [--rounds 7] [--steps 60] [--threads N]

What is compared is the time of the process's own threads (user and system): other programs on the machine disturb it less
than they disturb the clock. Pairs of runs side by side give one ratio each; their median is the result.
"""
import argparse
import http.server
import json
import os
import pty
import resource
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


def train(options, folder, told, url):
    settings = [f"output_dir={folder}/run", f"data.cache_dir={folder}/cache", f"training.max_steps={options.steps}",
                "training.eval_steps=0", "training.save_strategy=no", "training.warmup_ratio=0"]
    settings += (["logging.logging_steps=1", "logging.webhook_minutes=0",
                  "logging.webhooks=[{kind: json, url_env: BENCH_HOOK}]"] if told
                 else [f"logging.logging_steps={options.steps}", "logging.report_to=none"])
    command = [options.snug, "train", f"{ROOT}/recipes/ship_log.yml", "--overwrite", "--threads", str(options.threads)]
    command += [] if told else ["--json"]
    for setting in settings:
        command += ["--set", setting]
    environment = dict(os.environ, BENCH_HOOK=url, TERM="xterm", OMP_WAIT_POLICY="passive")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if told:  # on a terminal
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--snug", default=f"{ROOT}/build/release/snug")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/hook"
    ratios, told_seconds, quiet_seconds = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        train(options, folder, False, url)  # tokens are in the cache then
        for round_number in range(options.rounds):
            times = {}
            for told in (True, False) if round_number % 2 else (False, True):
                times[told] = train(options, folder, told, url)
            told_seconds.append(times[True])
            quiet_seconds.append(times[False])
            ratios.append(times[True] / times[False] - 1)
            print(f"round {round_number + 1}: told {times[True]:.3f} s, quiet {times[False]:.3f} s, "
                  f"{100 * ratios[-1]:+.2f}%", flush=True)
        program = f"{os.path.dirname(options.snug)}/run_events"
        direct = None
        if os.path.exists(program):
            direct = json.loads(subprocess.run([program, folder, "20000", url], check=True, capture_output=True).stdout)
    step_us = 1e6 * statistics.median(quiet_seconds) / options.steps
    print(json.dumps({"rounds": options.rounds, "steps": options.steps, "threads": options.threads,
                      "messages": Server.messages, "median_percent": round(100 * statistics.median(ratios), 2),
                      "percent_of_sums": round(100 * (sum(told_seconds) / sum(quiet_seconds) - 1), 2),
                      "quiet_step_us": round(step_us), "telling_a_logged_step_us": direct and direct["logged_us"],
                      "telling_another_step_us": direct and direct["other_us"]}))


if __name__ == "__main__":
    main()
