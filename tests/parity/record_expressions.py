"""Writes tests/fixtures/text/expressions.json: what transformers' jinja2 makes of the templates of template_cases.py.
usage: record_expressions.py"""
import copy
import json
import logging
import re
import sys
from pathlib import Path

import jinja2
import transformers
from transformers.utils import chat_template_utils

import template_cases

FILE = Path(__file__).resolve().parents[1] / "fixtures/text/expressions.json"
MESSAGES = [
    {"role": "system", "content": "Be brief. "},
    {"role": "user", "content": "Hi <think>a</think> there"},
    {"role": "assistant", "content": "Hello!"},
]
LISTS = ["FILTERS", "TESTS", "METHODS", "EXPRESSIONS", "MORE", "STATEMENTS", "ERRORS"]


def cases():
    """Each template by itself; a line that has only expressions is as many templates."""
    for name in LISTS:
        for line in getattr(template_cases, name).split("\n"):
            parts = [line]
            if line.startswith("{{") and "{%" not in line:
                parts = re.split(r"(?<=\}\})\|?\s*(?=\{\{ )", line)
            yield from (part for part in parts if part)
    yield from template_cases.BLOCKS


def render(template):
    """[template, text], or [template, null, kind of the error]."""
    try:
        text = chat_template_utils.render_jinja_template(
            [copy.deepcopy(MESSAGES)], chat_template=template, **copy.deepcopy(template_cases.VARIABLES))[0][0]
    except Exception as error:
        return [template, None, type(error).__name__]
    return [template, text]


def main():
    logging.disable(logging.WARNING)
    recorded, seen = [], set()
    for template in cases():
        if template in seen:
            continue
        seen.add(template)
        case = render(template)
        if case[1] is not None and " at 0x" in case[1]:
            print("left out, it prints an address:", template)
            continue
        recorded.append(case)
    versions = {"jinja2": jinja2.__version__, "transformers": transformers.__version__}
    lines = ",\n".join(json.dumps(case, separators=(",", ":"), ensure_ascii=False) for case in recorded)
    head = {"versions": versions, "messages": MESSAGES, "variables": template_cases.VARIABLES}
    FILE.write_text(json.dumps(head, separators=(",", ":"), ensure_ascii=False)[:-1] + ',\n"cases": [\n' + lines + "\n]}\n")
    failing = sum(case[1] is None for case in recorded)
    print(f"{len(recorded)} templates, {failing} of them errors")


if __name__ == "__main__":
    sys.exit(main())
