#!/usr/bin/env python3
"""The page of `snug watch` in a browser: it follows a run that writes, sets runs side by side, shows what they write as text,
asks nobody but its server, and is refused without its token off loopback; `--export` shows the same without a server.

    watch_page_test.py SNUG [--screenshots FOLDER]
"""

import argparse
import fcntl
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from chromium import SKIPPED, Browser, find_browser

ROOT = Path(__file__).resolve().parent.parent.parent
NASTY = "</script><script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\">"


def expect(holds, text):
    if not holds:
        raise SystemExit(f"watch page: {text}")


def append_rows(folder, rows):
    with open(folder / "metrics.jsonl", "a") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


def rows_of(first, last, rate):
    """Steps and, every 10, an evaluation with two sets and two samples."""
    rows = []
    for step in range(first, last + 1):
        loss = 0.4 + 5 * math.exp(-step * rate) + 0.2 * math.sin(step * 2.1) ** 2
        rows.append({"step": step, "loss": loss, "grad_norm": loss / 2, "learning_rate": 1e-3 * (1 - step / 400), "tokens": step * 512,
                     "tokens_per_second": 9000 + 200 * math.sin(step), "time": 1.79e9 + step * 2})
        if step % 10 == 0:
            rows.append({"step": step, "eval_loss": loss + 0.1, "eval_calm_loss": loss, "eval_storm_loss": loss + 0.2, "eval_token_accuracy":
                         1 - loss / 8, "eval_targets": 100, "time": 1.79e9 + step * 2 + 1})
            day = "Day %d. Wind west, cold. Fox at the river." % step
            rows.append({"sample": 1, "step": step, "prompt": "Log: fox, river, lantern", "reference": "Day 12. Wind west. Lantern lit.",
                         "text": day + (" Lantern lit. Crew well." if step > 20 else " The the the"), "time": 1.79e9 + step * 2 + 1})
            rows.append({"sample": 2, "step": step, "prompt": "Log: owl", "text": NASTY + str(step), "time": 1.79e9 + step * 2 + 1})
    return rows


def make_runs(snug, folder):
    """One run of the program, for its recipe and its plan, and two whose rows are known."""
    real = folder / "cache" / "real"
    subprocess.run([snug, "train", ROOT / "recipes/ship_log.yml", "--device", "cpu", "--set", f"output_dir={real}", "--set",
                    f"data.cache_dir={folder / 'cache'}", "--set", "training.max_steps=1", "--set", "training.eval_steps=0"],
                   check=True, capture_output=True)
    runs = folder / "runs"
    for name, rate in [("slow <b>&", "0.001"), ("fast", "0.004")]:
        run = runs / name
        run.mkdir(parents=True)
        (run / "plan.json").write_bytes((real / "plan.json").read_bytes())
        lines = (real / "recipe.yml").read_text().splitlines()
        (run / "recipe.yml").write_text("\n".join(f"  learning_rate: {rate}" if "learning_rate:" in line else line for line in lines) + "\n")
        manifest = {"made_by": "snug", "started": "2026-11-16T10:00:00Z", "state": "running" if name == "fast" else "complete",
                    "total_steps": 200, "files": []}
        (run / "manifest.json").write_text(json.dumps(manifest))
    append_rows(runs / "slow <b>&", rows_of(1, 200, 0.02))
    append_rows(runs / "fast", rows_of(1, 60, 0.05))
    fcntl.flock(os.open(runs / "fast", os.O_RDONLY), fcntl.LOCK_EX)  # as a run does while it runs
    return runs


class Watching:
    def __init__(self, snug, runs, *options):
        self.process = subprocess.Popen([snug, "watch", runs, "--port", "0", *options], stdout=subprocess.PIPE, text=True)
        self.lines = [self.process.stdout.readline()]
        self.address = self.lines[0].split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        rest = self.process.stdout.read()
        expect(self.process.wait(30) == 0, f"ends with {self.process.returncode}")
        expect("Ctrl-C" in rest, f"says: {rest}")


def wait_for(browser, expression, what):
    for _ in range(150):
        if browser.value(expression):
            return
        time.sleep(0.2)
    raise SystemExit(f"watch page: no {what}: {browser.value('document.body.innerText')[:800]} {browser.complaints}")


def lines_of(title):
    return f"curves.charts().find(one => one.kind.title === {json.dumps(title)}).lines"


def check_text(browser):
    expect(not browser.complaints, browser.complaints)
    expect("broken" not in browser.value("document.title"), "a sample became markup")
    expect(browser.value("document.querySelectorAll('main img, main script').length") == 0, "a sample became elements")
    expect(NASTY in browser.value("document.getElementById('samples').textContent"), "the sample is not there as it is")
    expect("slow <b>&" in browser.value("document.getElementById('cards').textContent"), "the name is not there as it is")


def check_live(browser, runs, screenshots):
    wait_for(browser, f"curves.charts().length && {lines_of('Training loss')}.length === 2", "two runs")
    first = browser.value(lines_of("Training loss") + ".map(line => line.raw.length)")
    expect(sorted(first) == [60, 200], f"rows: {first}")
    last = browser.value(lines_of("Training loss") + ".find(line => line.raw.length === 60).raw.at(-1)")
    expect(abs(last[1] - rows_of(60, 60, 0.05)[0]["loss"]) < 1e-12, f"the last row is {last}")
    sets = browser.value(lines_of("Evaluation loss") + ".map(line => line.key)")
    expect(sets == ["eval_loss", "eval_calm_loss", "eval_storm_loss"] * 2, f"sets: {sets}")
    settings = browser.value("document.getElementById('settings').textContent")
    expect("training.learning_rate" in settings and "0.001" in settings and "0.004" in settings, f"settings: {settings}")
    cards = browser.value("[...document.querySelectorAll('.card')].map(card => card.textContent)")
    fast = next(text for text in cards if "fast" in text)
    expect("running" in fast and "60 of 200 steps, 5 min left" in fast, f"140 steps at 2 s each: {fast}")
    check_text(browser)
    peak = json.loads((runs / "fast" / "plan.json").read_text())["peak_bytes"]
    wait_for(browser, f"document.getElementById('figures').textContent.includes('{peak:,} bytes')", "plan")
    if screenshots:
        for name, colours in [("light", "light"), ("dark", "dark")]:
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])
            browser.resize(1280, 2300)
            time.sleep(0.3)
            browser.screenshot(screenshots / f"watch-{name}.png")
        browser.call("Emulation.setEmulatedMedia", features=[])
    # It goes on.
    append_rows(runs / "fast", rows_of(61, 80, 0.05))
    wait_for(browser, f"{lines_of('Training loss')}.some(line => line.raw.length === 80)", "new rows")
    wait_for(browser, "document.getElementById('samples').textContent.includes('Day 80.')", "new sample")
    expect(browser.value("document.querySelectorAll('#samples mark').length") > 0, "what changed in a sample is not marked")
    # It is resumed from an earlier checkpoint: rows are written anew.
    (runs / "fast" / "metrics.jsonl").unlink()
    append_rows(runs / "fast", rows_of(1, 70, 0.04))
    wait_for(browser, f"{lines_of('Training loss')}.some(line => line.raw.length === 70)", "resumed rows")
    # One run alone, another scale, a part of it.
    browser.click(".card:first-child")
    expect(browser.value(lines_of("Training loss") + ".length") == 1, "a run is still shown")
    browser.click(".card:first-child")
    browser.click("#log")
    expect(browser.value("curves.charts()[0].box.log"), "no log scale")
    browser.value("(() => { const s = document.getElementById('part'); s.value = '0.5'; s.onchange({ target: s }); })()")
    expect(browser.value("curves.charts()[0].box.from") == 100, "not the last half")
    area = browser.value("(() => { const r = curves.charts()[0].canvas.getBoundingClientRect(); return [r.x, r.y + 40, r.width]; })()")
    drag(browser, area[0] + 100, area[0] + 300, area[1])
    box = browser.value("(() => { const b = curves.charts()[0].box; return [b.from, b.to]; })()")
    expect(100 < box[0] < box[1] < 160, f"zoomed to {box}")
    tip = browser.value("curves.charts()[0].tip.textContent")
    expect("step" in tip and "fast" in tip, f"tells: {tip}")
    browser.click("#whole-run")
    expect(browser.value("curves.charts()[0].box.to") == 200, "not all of it again")
    expect(not browser.complaints, browser.complaints)


def drag(browser, x0, x1, y):
    browser.move_mouse(x0, y)
    browser.call("Input.dispatchMouseEvent", type="mousePressed", x=x0, y=y, button="left", clickCount=1)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x1, y=y, button="left")
    browser.call("Input.dispatchMouseEvent", type="mouseReleased", x=x1, y=y, button="left", clickCount=1)


def check_phone(browser, screenshots):
    width = browser.value("document.documentElement.scrollWidth")
    expect(width <= 375, f"is {width} wide on a phone of 375")
    small = browser.value("[...document.querySelectorAll('button, td, p, dd, dt, div.steps')].filter(e => parseFloat(getComputedStyle(e).fontSize) < 13).length")
    expect(small == 0, f"{small} texts are too small for a phone")
    if screenshots:
        browser.screenshot(screenshots / "watch-phone.png")


def check_token(snug, runs, browser):
    """At an address that others could reach."""
    with Watching(snug, runs, "--bind", "0.0.0.0") as watching:
        port = watching.address.split(":")[2].split("/")[0]
        for path in ["/", "/api/runs", "/?token=guess"]:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}")
                raise SystemExit(f"watch page: {path} is answered without the token")
            except urllib.error.HTTPError as error:
                expect(error.code == 403, f"{path}: {error.code}")
        token = watching.address.split("token=")[1]
        browser.open(f"http://127.0.0.1:{port}/?token={token}")
        wait_for(browser, f"curves.charts().length && {lines_of('Training loss')}.length === 2", "runs behind a token")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snug")
    parser.add_argument("--screenshots", type=Path)
    arguments = parser.parse_args()
    if not find_browser():
        print("SKIPPED: there is no Chromium here (Debian: apt-get install chromium)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        runs = make_runs(arguments.snug, Path(folder))
        with Watching(arguments.snug, runs) as watching:
            browser.requests.clear()
            browser.open(watching.address)
            check_live(browser, runs, arguments.screenshots)
            expect(all(one.startswith(watching.address) for one in browser.requests), f"asks for {browser.requests}")
            browser.resize(375, 1600, mobile=True)
            browser.open(watching.address)
            wait_for(browser, "document.querySelectorAll('.card').length === 2", "runs on a phone")
            check_phone(browser, arguments.screenshots)
            browser.resize(1280, 900)
        check_token(arguments.snug, runs, browser)
        page = Path(folder) / "page.html"
        subprocess.run([arguments.snug, "watch", runs, "--export", page], check=True, capture_output=True)
        browser.open("about:blank")  # the page before asks no more
        browser.requests.clear()
        browser.open(page.as_uri())
        expect(browser.value(lines_of("Training loss") + ".length") == 2, "the exported page lacks runs")
        check_text(browser)
        expect(browser.requests == [page.as_uri()], f"the exported page asks for {browser.requests}")
        expect(str(folder) not in page.read_text().replace(str(page), "").split('"rows"')[0], "the exported page tells where runs lie")
    print("watch page: as watched")


if __name__ == "__main__":
    main()
