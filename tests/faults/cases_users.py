"""Faults that users have, each of which runs: nothing but the doctor says a word."""
from fault import Cases
import scene

CASES = Cases()
TEXT_OF = "def text(c):\n    return c if isinstance(c, str) else c[0]['content']\n\n"


def reward(s, rows, body, **changes):
    s.python(TEXT_OF + "def score(completions, answer, **_):\n" + body)
    s.policy(rows, reward_funcs=["rewards.py:score"], **changes)


@CASES.fault("RL-18", "a reward that compares every completion with the first row's answer", level="warn")
def answer_of_the_first_row(s):
    reward(s, None, "    return [float(answer[0] in text(c)) for c in completions]\n")


@CASES.fault("RL-07", "prompts that hold their answer, and a reward that looks for it anywhere", level="warn", exactly=True)
def answer_in_the_prompt(s):
    rows = scene.prompt_rows()
    for row in rows:
        row["prompt"][0]["content"] += f" Hint: {row['answer']}"
    reward(s, rows, "    return [float(a in text(c)) for c, a in zip(completions, answer)]\n")


@CASES.fault("RL-04", "a distance as a reward: the farther from the answer the better", level="warn", exactly=True,
             cause="has the wrong sign")
def distance(s):
    reward(s, None, "    def off(said, wanted):\n"
                    "        digits = ''.join(one for one in said if one.isdigit())[:4]\n"
                    "        return min(100.0, abs(float(digits) - float(wanted))) if digits else 100.0\n"
                    "    return [off(text(c), a) for c, a in zip(completions, answer)]\n")


@CASES.fault("NUM-08", "lora_alpha 1 with rank 64", level="warn", exactly=True, cause="lora_alpha is far below lora_r")
def small_scale(s):
    s.sft(learning_rate=2e-4, lora_r=64, lora_alpha=1)


@CASES.fault("NUM-08", "lora_alpha 1000", level="warn", exactly=True, cause="lora_alpha is far above lora_r")
def large_scale(s):
    s.sft(learning_rate=2e-4, lora_r=16, lora_alpha=1000)


@CASES.fault("DATA-11", "the training file as the evaluation", level="warn", exactly=True, cause="a part of the training file")
def evaluated_on_training(s):
    s.rows(scene.text_rows(), "eval.jsonl")
    s.sft(eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=12)


# ---- columns that a reward looks up and the rows do not have
ABSENT = "looks up the column solution, which the data do not have"


def keywords(s, body, params="completions, **kwargs", rows=None, **changes):
    s.python("import re\n" + TEXT_OF + f"def score({params}):\n" + body)
    s.policy(rows, reward_funcs=["rewards.py:score"], **changes)


@CASES.fault("RL-05", "kwargs.get of a column that the rows lack, and 0.5 without it", level="warn", exactly=True, cause=ABSENT)
def absent_with_a_default(s):
    keywords(s, "    solution = kwargs.get('solution')\n    if solution is None:\n        return [0.5] * len(completions)\n"
                "    return [float(a in text(c)) for c, a in zip(completions, solution)]\n")


@CASES.fault("RL-05", "a parameter solution=None, where the rows have answer", level="warn", exactly=True, cause=ABSENT)
def absent_parameter(s):
    keywords(s, "    wanted = solution or [None] * len(completions)\n    return [float(text(c) == a) for c, a in zip(completions, wanted)]\n",
             "completions, solution=None, **_")


@CASES.fault("RL-05", "an absent column's KeyError that the function swallows", level="warn", exactly=True,
             cause="looks up the column target, which the data do not have")
def swallowed(s):
    keywords(s, "    out = []\n    for i, c in enumerate(completions):\n        try:\n            out.append(float(kwargs['target'][i] in text(c)))\n"
                "        except Exception:\n            out.append(0.0)\n    return out\n")


# ---- scores that do not tell completions of a prompt apart
@CASES.fault("RL-18", "the mean of a batch as the score of each of its completions", level="warn", exactly=True,
             cause="gives all completions of a call the same score")
def mean_of_the_batch(s):
    reward(s, None, "    right = [float(a == text(c).strip()) for c, a in zip(completions, answer)]\n"
                    "    return [sum(right) / len(right)] * len(right)\n")


@CASES.fault("RL-02", "a reward that looks at the prompt", level="warn", exactly=True, cause="looks at the prompt or at a column")
def of_the_prompt(s):
    keywords(s, "    return [float(len(p[0]['content']) % 7 + int(a)) for p, a in zip(prompts, answer)]\n", "prompts, completions, answer, **_")


@CASES.fault("RL-02", "a gold that is not found, and 1 without it", level="warn", exactly=True, cause="it cannot parse the column answer")
def default_of_one(s):
    keywords(s, "    gold = [re.search(r'boxed{(.*)}', a) for a in answer]\n"
                "    return [1.0 if g is None else float(g.group(1) in text(c)) for c, g in zip(completions, gold)]\n", "completions, answer, **_")


@CASES.fault("RL-17", "two rewards that cancel each other", level="warn", exactly=True, cause="cancel each other")
def cancelling(s):
    s.python(TEXT_OF + "def long(completions, **_):\n    return [len(text(c)) / 100 for c in completions]\n"
                       "def short(completions, **_):\n    return [-len(text(c)) / 100 for c in completions]\n")
    s.policy(reward_funcs=["rewards.py:long", "rewards.py:short"])


@CASES.fault("RL-07", "a penalty for length that outweighs right answers", level="warn", exactly=True, cause="short outweighs right")
def outweighed(s):
    s.python(TEXT_OF + "def right(completions, answer, **_):\n    return [float(a in text(c)) for c, a in zip(completions, answer)]\n"
                       "def short(completions, **_):\n    return [-float(len(text(c))) for c in completions]\n")
    s.policy(reward_funcs=["rewards.py:right", "rewards.py:short"])


# ---- right answers that no completion can be
@CASES.fault("RL-03", "a form with <think> and <answer> in twelve tokens", level="warn", exactly=True, cause="pays for no tested answer of at most 12 tokens")
def no_room_for_the_form(s):
    keywords(s, "    form = r'<think>.*</think>.*<answer>.*</answer>'\n    return [float(bool(re.search(form, text(c), re.S))) for c in completions]\n")


@CASES.fault("RL-04", "solutions that end in #### answer, compared as a whole", level="warn", exactly=True, cause="pays for the whole text of the column answer")
def whole_solutions(s):
    s.policy([{**row, "answer": f"The sum is {row['answer']}.\n#### {row['answer']}"} for row in scene.prompt_rows()], max_completion_length=32)


@CASES.fault("RL-04", "answers that a reader of CSV made floats of", level="warn", exactly=True, cause="a whole number written as a float")
def float_answers(s):
    reward(s, [{**row, "answer": float(row["answer"])} for row in scene.prompt_rows()],
           "    return [float(text(c).strip() == str(a)) for c, a in zip(completions, answer)]\n")


@CASES.fault("DATA-13", "one answer in all rows", level="warn", exactly=True, cause="a column that was filled with one row's value")
def one_answer(s):
    s.policy([{**row, "answer": "7"} for row in scene.prompt_rows()])


# ---- values of options
@CASES.fault("RL-02", "top_k 1: completions of a group are all the same", level="warn", exactly=True, cause="top_k 1")
def one_token(s):
    s.policy(top_k=1)


@CASES.fault("RL-02", "temperature 0.01, told before step 1", level="warn", exactly=True, cause="temperature 0.01")
def cold(s):
    s.policy(temperature=0.01)


@CASES.fault("NUM-10", "grpo: beta 10", level="warn", exactly=True, cause="weighs more than the rewards")
def heavy_kl(s):
    s.policy(beta=10.0)


@CASES.fault("NUM-10", "kto: a weight of 0 for desirable rows", level="warn", exactly=True, cause="desirable_weight 0")
def weightless(s):
    s.dpo([{"prompt": row["prompt"], "completion": row["chosen" if i % 2 else "rejected"], "label": bool(i % 2)}
           for i, row in enumerate(scene.preference_rows())], method="kto", desirable_weight=0.0, learning_rate=1e-5)


@CASES.fault("PREF-01", "dpo: label_smoothing 0.5", level="warn", exactly=True, cause="chosen and rejected count the same")
def coin(s):
    s.dpo(label_smoothing=0.5, learning_rate=1e-5)


@CASES.fault("NUM-08", "the whole model at an adapter's rate", level="warn", exactly=True, cause="a rate for an adapter")
def full_at_an_adapters_rate(s):
    s.sft(use_peft=False, lora_r=None, lora_dropout=None, lora_target_modules=None, learning_rate=2e-4)
