"""The reward of the calculator example: a function with TRL's signature."""
import re


def last_number(text):
    found = re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", text))
    return found[-1] if found else None


def used_calculator(completions, answer, **_):
    """1 where the calculator gave the answer and the last message says it, else 0: a right answer without the tool counts as wrong."""
    return [float(is_right(turns, expected)) for turns, expected in zip(completions, answer)]


def is_right(turns, expected):
    results = [turn["content"] for turn in turns if turn["role"] == "tool"]
    last = turns[-1]
    return expected in results and last["role"] == "assistant" and not last.get("tool_calls") and last_number(last["content"]) == expected
