"""Rewards of your own: functions with TRL's signature, run in a worker process of your own Python (`--python`).

    build/hone grpo --config examples/quickstart.yaml --reward_funcs examples/rewards.py:right_digits

`completions` are texts, or lists of one message when the prompts are messages; every other column of the data (here
`answer`) comes as a list under its own name. The result is one number a completion, or None where this function
has no opinion.
"""


def text(completion):
    return completion if isinstance(completion, str) else completion[0]["content"]


def right_digits(completions, answer, **_):
    """1 for the answer alone; a wrong number of the right length gets up to a half, for the digits in place."""
    return [graded(text(completion).strip(), expected) for completion, expected in zip(completions, answer)]


def graded(found, expected):
    if found == expected:
        return 1.0
    if not found.isdigit() or len(found) != len(expected):
        return 0.0
    return 0.5 * sum(a == b for a, b in zip(found, expected)) / len(expected)


def short(completions, **_):
    """A small bonus for few characters; beside another reward: reward_funcs: [..., examples/rewards.py:short]."""
    return [max(0.0, 1 - len(text(completion)) / 100) for completion in completions]
