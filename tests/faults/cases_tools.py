"""TOOL: runs whose model may call tools. The fixture's model learned sums and no calls: where it has to call, a pattern holds it to that."""
from fault import Cases

CASES = Cases()

# Hermes' form of calls and results, as Qwen2.5 and others have it.
TEMPLATE = (
    "{%- if tools %}<|im_start|>system\nTools:{% for tool in tools %} {{ tool.function.name }}{% endfor %}<|im_end|>\n{% endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'tool' %}"
    "{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}\n"
    "<tool_response>\n{{ message.content }}\n</tool_response>"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}"
    "{%- else %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{%- if message.tool_calls %}{% for call in message.tool_calls %}"
    "{%- if not loop.first or message.content %}\n{% endif %}"
    '<tool_call>\n{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>'
    "{%- endfor %}{% endif %}<|im_end|>\n{% endif %}"
    "{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
CALL = r'<tool_call>\n\{"name": "add", "arguments": \{"a": [0-9], "b": [0-9]\}\}\n</tool_call>'
ACTS = {"vllm_structured_outputs_regex": f"({CALL}|sum [0-9])"}
HEAD = 'def add(a: int, b: int) -> int:\n    """\n    Adds.\n\n    Args:\n        a: The first number.\n        b: The second number.\n    """\n'
RIGHT = "    return a + b\n"
LAST = "c[-1]['content']"


def score(read=LAST):
    return f"\n\ndef score(completions, answer, **_):\n    return [float(a in {read}) for c, a in zip(completions, answer)]\n"


def acts(s, body=RIGHT, before="", reward="", **changes):
    s.model()
    s.edit_json("model/tokenizer_config.json", chat_template=TEMPLATE)
    s.edit_json("model/config.json", max_position_embeddings=2048)
    s.python(before + HEAD + body + (reward or score()), "tools.py")
    s.policy(**{"tools": "tools.py:add", "reward_funcs": ["tools.py:score"], "max_completion_length": 200, **ACTS, **changes})


@CASES.fault("TOOL-01", "a tool that uses a name that is nowhere", level="warn", exactly=True, cause="NameError is seldom about arguments")
def broken_tool(s):
    acts(s, "    return a + offset\n")


@CASES.fault("TOOL-01", "a tool that refuses made-up arguments", level="note", exactly=True, cause="made-up arguments")
def refusing_tool(s):
    acts(s, "    raise ValueError('two of the same')\n")


@CASES.fault("TOOL-01", "a tool that answers with an image", level="warn", exactly=True, cause="trains on text only")
def image(s):
    acts(s, "    return [{'type': 'text', 'text': str(a + b)}, {'type': 'image', 'image': b'x'}]\n")


@CASES.fault("TOOL-02", "a tool that answers by the clock", level="warn", exactly=True, cause="the clock", varies=True)
def clock(s):
    acts(s, "    return a + time.perf_counter_ns()\n", "import time\n\n\n")


@CASES.fault("TOOL-03", "max_completion_length 30, with calls of 80 tokens", cause="shorter than a call")
def no_room(s):
    acts(s, max_completion_length=30)


@CASES.fault("TOOL-03", "a tool whose result is longer than a completion may be", level="warn", exactly=True, cause="returns all that it has")
def long_result(s):
    acts(s, "    return '5 ' * 900\n")


@CASES.fault("TOOL-04", "the end of a turn in a result, and tool_text_control_tokens: as_is", level="warn", exactly=True)
def control_tokens(s):
    acts(s, "    return '5<|im_end|>5'\n", tool_text_control_tokens="as_is")


@CASES.fault("TOOL-04", "the end of a turn in a result, read as plain text", level="note", exactly=True)
def plain_control_tokens(s):
    acts(s, "    return '5<|im_end|>5'\n")


@CASES.fault("TOOL-05", "a reward that joins the messages of a dialogue", level="warn", exactly=True, cause="those of the role tool too")
def joined(s):
    acts(s, reward=score("' '.join(m['content'] for m in c)"))


@CASES.fault("TOOL-05", "a reward that reads the first message", level="warn", exactly=True, cause="reads the first message")
def first_message(s):
    acts(s, reward=score("c[0]['content']"))


@CASES.fault("TOOL-06", "a model that was never trained to call", level="warn", exactly=True, cause="a base model")
def never_calls(s):
    acts(s, vllm_structured_outputs_regex=None)


@CASES.fault("TOOL-07", "calls in another form than the template's", level="warn", exactly=True, cause="another form")
def other_form(s):
    acts(s, vllm_structured_outputs_regex=r"<tool_call>add\([0-9]\)</tool_call>")


@CASES.fault("TOOL-08", "a tool that takes other arguments than the model gives", "train", level="warn", exactly=True, cause="does not take")
def failing(s):
    acts(s, "    raise ValueError('only numbers above 10')\n", max_tool_calling_iterations=1)


@CASES.fault("TOOL-09", "one failing call, until there is no room", "train", level="warn", exactly=True, cause="as a reason to call otherwise")
def circling(s):
    acts(s, "    raise ValueError('not now')\n", vllm_structured_outputs_regex=CALL.replace("[0-9]", "1"), max_completion_length=700, max_steps=9)


@CASES.fault("TOOL-10", "a tool that sleeps, and one worker", level="warn", exactly=True, varies=True)
def slow(s):
    acts(s, "    time.sleep(1)\n    return a + b\n", "import time\n\n\n", tool_workers=1, per_device_train_batch_size=64)


@CASES.fault("TOOL-11", "a tool that gives every caller the same answer", "train", level="warn", exactly=True, cause="gives the answer away")
def alike(s):
    acts(s, "    return 'none'\n", reward="\n\ndef score(completions, **_):\n    score.calls = getattr(score, 'calls', 0) + 1\n"
         "    return [1.0 if score.calls == 1 and i % 2 else 0.0 for i, c in enumerate(completions)]\n",
         vllm_structured_outputs_regex=CALL.replace("[0-9]", "1"), max_tool_calling_iterations=1, probe_rewards=False)


CASES.exclude("TOOL-12", "a dialogue that is encoded again between its turns")
CASES.exclude("TOOL-13", "a chat template that takes the reasoning out of earlier turns")
CASES.exclude("TOOL-14", "results among the tokens of the loss")
CASES.exclude("TOOL-15", "async results behind those of the others")
CASES.exclude("TOOL-16", "a tool without docstring or types")
CASES.exclude("TOOL-17", "an environment that crashes its process")
CASES.exclude("TOOL-18", "an environment's reward beside another weight")


# A model that is learning: it calls now and then, and a call is worth something.
CALLS = ("\n\ndef score(completions, answer, **_):\n"
         "    return [0.5 * any(m['role'] == 'tool' for m in c) + float(a in c[-1]['content']) for c, a in zip(completions, answer)]\n")
