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
