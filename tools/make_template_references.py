#!/usr/bin/env python3
"""Renders conversations with Jinja2, as transformers does, for the tests of chat templates.

  make_template_references.py                     rewrites tests/goldens/templates/*.json
  make_template_references.py --check PROGRAM T.. renders each template T with Jinja2 and with PROGRAM
                                                  (the test program test_text) and compares

A golden file holds a template and what it makes of conversations: text, the ranges of {% generation %} blocks,
or an error. The templates are written for these tests. --check is for templates that models ship, which are
not ours to keep here: T is a .jinja file or a tokenizer_config.json.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jinja2
import jinja2.ext
import jinja2.sandbox

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "templates"
NOW = datetime.datetime(2024, 7, 26, 13, 5, 9)


class Generation(jinja2.ext.Extension):
    """{% generation %}, which marks what the model wrote."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller):
        text = caller()
        marks = self.environment.marks
        begin = len("".join(marks["blocks"]).encode())
        marks["ranges"].append([begin, begin + len(text.encode())])
        return text


def environment():
    """The environment that transformers makes for chat templates."""

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    result = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = NOW.strftime
    result.globals["dict"] = dict
    return result


def render(source, variables):
    """{"text", "ranges"} or {"error"}."""
    try:
        env = environment()
        env.marks = {"blocks": [], "ranges": []}
        for block in env.from_string(source).generate(**variables):
            env.marks["blocks"].append(block)
        return {"text": "".join(env.marks["blocks"]), "ranges": env.marks["ranges"]}
    except Exception as error:  # whatever it is, the other side must fail too
        return {"error": f"{type(error).__name__}: {error}"}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'The weather "now" in a place <b>&</b> its neighbours',
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "e.g. Đà Nẵng"},
                "days": {"type": "integer", "default": 3, "minimum": 0.5, "enum": [1, 3, None, True]},
            },
            "required": ["place"],
        },
        "return": {"type": "string"},
    },
}
CALL = {"type": "function", "id": "abcdefghi", "function": {"name": "get_weather", "arguments": {"place": "Huế", "days": 2}}}
SHORT = [message("user", "Hello"), message("assistant", "Hi there!")]
CONVERSATIONS = {
    "short": SHORT,
    "question": SHORT[:1],
    "system": [message("system", "Be brief.")] + SHORT,
    "system only": [message("system", "Be brief.")],
    "turns": [message("system", " You help. ")]
    + [message(role, f"{word} {i}\n") for i in range(4) for role, word in (("user", "question"), ("assistant", " answer"))],
    "spaces": [message("user", "  lead\n\n and trail \t\n"), message("assistant", "\n x \u00a0\u3000")],
    "unicode": [message("user", "Xin chào 🤗 — “quotes” \u202e ß ΣΑΣ \U0001F469\u200D\U0001F680"), message("assistant", "Tạm biệt\x07\x7f")],
    "empty content": [message("user", ""), message("assistant", "")],
    "none content": [message("user", "q"), message("assistant", None)],
    "no content": [message("user", "q"), {"role": "assistant"}],
    "assistant first": [message("assistant", "I speak first"), message("user", "oh")],
    "two users": [message("user", "one"), message("user", "two"), message("assistant", "both")],
    "odd role": [message("user", "q"), message("critic", "bad"), message("assistant", "a")],
    "late system": SHORT + [message("system", "Now in French."), message("user", "Bye"), message("assistant", "Au revoir")],
    "empty": [],
    "think": [
        message("user", "2+2?"),
        message("assistant", "<think>\nadd\n</think>\n\n4"),
        message("user", "3+3?"),
        message("assistant", "<think>\nadd more\n</think>\n\n6", reasoning_content="add more"),
    ],
    "tool call": [
        message("user", "Weather in Huế?"),
        message("assistant", "", tool_calls=[CALL]),
        message("tool", '{"sky": "clear"}', tool_call_id="abcdefghi", name="get_weather"),
        message("tool", "again", tool_call_id="abcdefghi", name="get_weather"),
        message("assistant", "It is clear."),
        message("user", "Thanks"),
        message("assistant", "You are welcome."),
    ],
    "parts": [
        message("user", [{"type": "text", "text": "look "}, {"type": "image"}, {"type": "text", "text": "here"}]),
        message("assistant", [{"type": "text", "text": "seen"}]),
    ],
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def cases():
    for name, messages in CONVERSATIONS.items():
        for prompt in (False, True):
            yield {"name": f"{name}, prompt {prompt}", "messages": messages, "add_generation_prompt": prompt}
    for name in ("short", "system", "tool call", "turns"):
        yield {"name": f"{name}, tools", "messages": CONVERSATIONS[name], "tools": [TOOL, TOOL]}
    yield {
        "name": "variables",
        "messages": CONVERSATIONS["think"],
        "add_generation_prompt": True,
        "variables": {"enable_thinking": False, "date_string": "1 May 2031", "custom_tools": [TOOL], "n": 7.5},
    }


def fill_reasoning(messages):
    """transformers passes reasoning under each of its names."""
    filled = []
    for one in messages:
        found = next((one[key] for key in ("reasoning_content", "thinking", "reasoning") if one.get(key) is not None), None)
        filled.append(one if found is None else {"thinking": found, **one, "reasoning_content": found})
    return filled


def results(source, tokens):
    for case in cases():
        variables = {
            **tokens,
            **case.get("variables", {}),
            "messages": fill_reasoning(case["messages"]),
            "tools": case.get("tools"),
            "documents": None,
            "add_generation_prompt": case.get("add_generation_prompt", False),
        }
        yield {**case, **render(source, variables)}


def write_goldens():
    for path in sorted(GOLDENS.glob("*.jinja")):
        document = {"tokens": TOKENS, "cases": list(results(path.read_text(encoding="utf-8"), TOKENS))}
        if not path.stem.startswith("chat_"):  # constructs alone: one conversation is enough
            document["cases"] = [case for case in document["cases"] if case["name"] == "turns, prompt True"]
        text = json.dumps(document, ensure_ascii=False, indent=1)
        path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        errors = sum("error" in case for case in document["cases"])
        print(f"{path.name}: {len(document['cases'])} cases, {errors} of them errors")
        for case in document["cases"]:
            if "error" in case and not path.stem.startswith("chat_"):
                print("   ", case["error"])


def token_text(value):
    return value.get("content") if isinstance(value, dict) else value


def read_shipped(path):
    """(template, tokens) of a file that comes with a model."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    if not path.endswith(".json"):
        return text, TOKENS
    config = json.loads(text)
    source = config.get("chat_template")
    if isinstance(source, list):
        source = {entry["name"]: entry["template"] for entry in source}["default"]
    names = [key for key in config if key.endswith("_token") and token_text(config[key])]
    tokens = {key: token_text(config[key]) for key in names if isinstance(token_text(config[key]), str)}
    return source, tokens


def check(program, paths):
    """Writes each template and its results where the test finds them, and runs the test on them."""
    failed = []
    for path in paths:
        source, tokens = read_shipped(path)
        if not source:
            print(f"{path}: no template")
            continue
        document = {"tokens": tokens, "cases": list(results(source, tokens))}
        errors = sum("error" in case for case in document["cases"])
        with tempfile.TemporaryDirectory() as folder:
            base = pathlib.Path(folder) / "shipped"
            base.with_suffix(".jinja").write_text(source, encoding="utf-8")
            base.with_suffix(".json").write_text(json.dumps(document), encoding="utf-8")
            command = [program, "--gtest_filter=ChatTemplateShipped.*", "--gtest_brief=1"]
            run = subprocess.run(
                command, env={**os.environ, "SNUG_TEMPLATE_FOLDER": folder}, capture_output=True, text=True, check=False
            )
        verdict = "same" if run.returncode == 0 else "DIFFERENT"
        print(f"{path}: {verdict}, {len(document['cases'])} cases, {errors} refused by Jinja2", flush=True)
        if run.returncode != 0:
            failed.append(path)
            print(run.stdout[:1500])
    sys.exit(f"{len(failed)} of {len(paths)} templates differ" if failed else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="PROGRAM")
    parser.add_argument("templates", nargs="*")
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.check, arguments.templates)
    else:
        write_goldens()


if __name__ == "__main__":
    main()
