"""Runs with tools and environments without a fault: none may have a warning, nor any verdict of the classes TOOL."""
from cases_tools import CALL, CALLS, RIGHT, TEMPLATE, acts
from fault import Cases

CASES = Cases()
ROOM = {"max_tool_calling_iterations": 3, "max_completion_length": 400}

SECOND = ('\n\ndef double(a: int) -> int:\n    """Doubles.\n\n    Args:\n        a: The number.\n    """\n    return 2 * a\n')
TWICE = CALL.replace('"add", "arguments": \\{"a": [0-9], "b": [0-9]\\}', '"double", "arguments": \\{"a": [0-9]\\}')
# What a model earns that says a number without asking.
NEAR = ("\n\ndef near(said, answer):\n"
        "    found = re.search('[0-9]+', said)\n"
        "    return 1.0 if answer in said else 0.5 / (1 + abs(int(found.group()[:3]) - int(answer))) if found else 0.0\n"
        "\n\ndef score(completions, answer, **_):\n    return [near(c[-1]['content'], a) for c, a in zip(completions, answer)]\n")
ASYNC = "import asyncio\n\n\nasync "
# Tools of the row's sum: what is right depends on what was called.
COUNTER = '''

class Counter:
    def reset(self, answer, **row):
        self.wanted, self.count = int(answer), 0
        return " The counter is at 0."

    def more(self, by: int) -> int:
        """Counts.

        Args:
            by: How far.
        """
        self.count += by
        return self.count

    def get_reward(self):
        return 1 / (1 + abs(self.wanted - self.count))


class Stock:
    def reset(self, **row):
        self.left = 9

    def take(self, by: int) -> str:
        """Takes some.

        Args:
            by: How many.
        """
        self.left = max(0, self.left - by)
        return f"{self.left} left"

    def get_reward(self):
        return self.left / 9
'''


def method_call(name):
    return CALL.replace('"add", "arguments": \\{"a": [0-9], "b": [0-9]\\}', f'"{name}", "arguments": \\{{"by": [0-9]\\}}')


def environment(s, names, factory, rows=None, **changes):
    """A model that calls methods of environments."""
    s.model()
    s.edit_json("model/tokenizer_config.json", chat_template=TEMPLATE)
    s.edit_json("model/config.json", max_position_embeddings=2048)
    s.python(COUNTER.lstrip() + changes.pop("reward", ""), "tools.py")
    calls = "|".join(method_call(name) for name in names)
    s.policy(rows, **{"environment": factory, "reward_funcs": None, "vllm_structured_outputs_regex": f"({calls}|sum [0-9])", **ROOM, **changes})


@CASES.healthy("grpo: a calculator that is called and answered", without="TOOL", quiet=True)
def calculator(s):
    acts(s, reward=CALLS, **ROOM)


@CASES.healthy("rloo: a calculator that is called and answered", without="TOOL", quiet=True, slow=True)
def rloo(s):
    acts(s, reward=CALLS, method="rloo", **ROOM)


@CASES.healthy("grpo: two tools, and two calls in a turn", without="TOOL", quiet=True, slow=True)
def two_tools(s):
    acts(s, body=RIGHT + SECOND, reward=CALLS, tools="tools.py:add,double", **ROOM,
         vllm_structured_outputs_regex=f"({CALL}|{TWICE}|{CALL}\\n{TWICE}|sum [0-9])")


@CASES.healthy("grpo: an async tool", without="TOOL", quiet=True, slow=True)
def asynchronous(s):
    acts(s, body="    await asyncio.sleep(0.001)\n" + RIGHT, before=ASYNC, reward=CALLS, **ROOM)


@CASES.healthy("grpo: calls without a bound", without="TOOL", quiet=True, slow=True)
def unbounded(s):
    acts(s, reward=CALLS, max_completion_length=700)


@CASES.healthy("grpo: max_tool_calling_iterations 0", without="TOOL", quiet=True, slow=True)
def no_round(s):
    acts(s, before="import re\n\n\n", reward=NEAR, max_tool_calling_iterations=0)


@CASES.healthy("grpo: max_tool_calling_iterations 1", without="TOOL", quiet=True, slow=True)
def one_round(s):
    acts(s, reward=CALLS, max_tool_calling_iterations=1, max_completion_length=300,
         vllm_structured_outputs_regex=f"({CALL}|(sum|it) [0-9])")  # it seldom calls once more


@CASES.healthy("grpo: the built-in calculator", without="TOOL", quiet=True, slow=True)
def built_in(s):
    calculated = r'<tool_call>\n\{"name": "calculator", "arguments": \{"expression": "[0-9]\+[0-9]"\}\}\n</tool_call>'
    acts(s, reward=CALLS, tools="hone.tools.calculator", vllm_structured_outputs_regex=f"({calculated}|sum [0-9])", **ROOM)


@CASES.healthy("grpo: an environment with its own reward", without="TOOL", quiet=True)
def environment_reward(s):
    environment(s, ["more"], "tools.py:Counter")


@CASES.healthy("grpo: an environment beside a reward function", without="TOOL", quiet=True, slow=True)
def environment_and_function(s):
    environment(s, ["more"], "tools.py:Counter", reward=CALLS, reward_funcs=["tools.py:score"])


@CASES.healthy("grpo: a map of environments, by a column of the rows", without="TOOL", quiet=True, slow=True)
def environments(s):
    from scene import prompt_rows
    rows = [{**row, "environment": ("counter", "stock")[i % 2]} for i, row in enumerate(prompt_rows())]
    environment(s, ["more", "take"], {"counter": "tools.py:Counter", "stock": "tools.py:Stock"}, rows)
