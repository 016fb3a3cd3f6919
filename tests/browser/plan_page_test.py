#!/usr/bin/env python3
"""The page of `snug plan --html` in a browser: it asks nobody for anything, tells of the buffer below the mouse what the
plan says of it, and fits on a phone.

    plan_page_test.py SNUG [--screenshots FOLDER]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from chromium import SKIPPED, Browser, find_browser

ROOT = Path(__file__).resolve().parent.parent.parent


def expect(holds, text):
    if not holds:
        raise SystemExit(f"plan page: {text}")


def check_wide(browser, plan):
    expect(browser.requests and all(one.startswith("file:") for one in browser.requests),
           f"asks for {browser.requests}")
    figures = browser.value("document.getElementById('figures').textContent")
    expect(f"{plan['peak_bytes']:,} bytes" in figures, f"peak {plan['peak_bytes']:,} is not in: {figures}")
    expect(plan["peak_phase"] == browser.value("document.querySelector('#phases [aria-pressed=true]').textContent"),
           "begins with another phase than that of the peak")
    # The middle of the largest thing that lives for some ops only, by what the page drew.
    browser.value("$('weights').click()")
    place = browser.value(
        "(() => { const own = shapes.filter(s => !s.one.buffer.persists && s.width > 4 && s.height > 4);"
        "own.sort((a, b) => b.width * b.height - a.width * a.height); const s = own[0];"
        "const r = $('canvas').getBoundingClientRect();"
        "return { x: r.x + s.x + s.width / 2, y: r.y + s.y + s.height / 2, name: s.one.buffer.name, bytes: s.one.buffer.bytes }; })()")
    browser.move_mouse(place["x"], place["y"])
    tip = browser.value("getComputedStyle($('tip')).visibility + ' ' + $('tip').textContent")
    expect(tip.startswith("visible") and place["name"] in tip and f"{place['bytes']:,} bytes" in tip, f"tells: {tip}")
    for selector, text in [("#by-role", "stacked"), ("#colour", "by layer"), ("#by-place", "placed"), ("#whole", "whole")]:
        browser.click(selector)
        expect(not browser.complaints, f"{text}: {browser.complaints}")
    for index in range(browser.value("document.querySelectorAll('#phases button').length")):
        browser.value(f"document.querySelectorAll('#phases button')[{index}].click()")
    expect(not browser.complaints, f"phases: {browser.complaints}")


def check_phone(browser):
    width = browser.value("document.documentElement.scrollWidth")
    expect(width <= 375, f"is {width} wide on a phone of 375")
    small = browser.value("[...document.querySelectorAll('button, td, p')].filter(e => parseFloat(getComputedStyle(e).fontSize) < 13).length")
    expect(small == 0, f"{small} texts are too small for a phone")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snug")
    parser.add_argument("--screenshots", type=Path)
    arguments = parser.parse_args()
    if not find_browser():
        print("SKIPPED: there is no Chromium here (Debian: apt-get install chromium)")
        sys.exit(SKIPPED)
    recipes = [("recipes/ship_log.yml", ["--device", "cuda", "--memory", "24GiB"]),
               ("recipes/cases/security.yml", ["--gpu", "a6000"])]
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        for recipe, options in recipes:
            page = Path(folder) / "plan.html"
            done = subprocess.run([arguments.snug, "plan", ROOT / recipe, *options, "--html", page, "--json"],
                                  capture_output=True, text=True, check=True)
            plan = json.loads(done.stdout)
            plan = plan["stages"][0] if "stages" in plan else plan
            browser.requests.clear()
            browser.resize(1280, 900)
            browser.open(page.as_uri())
            if arguments.screenshots:
                browser.screenshot(arguments.screenshots / f"plan-{Path(recipe).stem}.png")
            check_wide(browser, plan)
            browser.resize(375, 800, mobile=True)
            browser.open(page.as_uri())
            check_phone(browser)
            if arguments.screenshots:
                browser.screenshot(arguments.screenshots / f"plan-{Path(recipe).stem}-phone.png")
    print("plan page: as planned")


if __name__ == "__main__":
    main()
