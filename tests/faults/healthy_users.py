"""The innocent neighbors of cases_users.py and cases_rows.py: what looks like those faults, and is none. None of them may warn."""
from fault import Cases
import scene

CASES = Cases()
TEXT_OF = "def text(c):\n    return c if isinstance(c, str) else c[0]['content']\n\n"
RATE = {"learning_rate": 2e-4}
PREFERENCE = {"learning_rate": 1e-5}


def policy(s, functions, names=("score",), rows=None, **changes):
    s.python("import re\n" + TEXT_OF + functions)
    s.policy(rows, reward_funcs=[f"rewards.py:{name}" for name in names], **changes)


# ---- rewards
@CASES.healthy("grpo: a reward that knows two names of the answer's column", quiet=True)
def two_names(s):
    policy(s, "def score(completions, **kwargs):\n    wanted = kwargs.get('solution') or kwargs.get('answer')\n"
              "    return [float(text(c).strip() == a) for c, a in zip(completions, wanted)]\n")


@CASES.healthy("grpo: optional parameters that are no columns", quiet=True)
def optional_parameters(s):
    policy(s, "def score(completions, answer, tokenizer=None, weights=None, scale=1.0, **kwargs):\n    step = kwargs['trainer_state'].global_step\n"
              "    return [scale * float(text(c).strip() == a) + 0 * step for c, a in zip(completions, answer)]\n"
              "def short(completions, tokenizer=None, **_):\n    return [0.5 if len(text(c)) < 3 else 0.0 for c in completions]\n", ["score", "short"])


@CASES.healthy("grpo: a small penalty for length beside right answers", quiet=True)
def small_penalty(s):
    policy(s, "def right(completions, answer, **_):\n    return [float(text(c).strip() == a) for c, a in zip(completions, answer)]\n"
              "def short(completions, **_):\n    return [-0.01 * len(text(c)) for c in completions]\n", ["right", "short"])


@CASES.healthy("grpo: a score against the mean of its call", quiet=True)
def against_the_mean(s):
    policy(s, "def score(completions, answer, **_):\n    right = [float(text(c).strip() == a) for c, a in zip(completions, answer)]\n"
              "    return [r - sum(right) / len(right) for r in right]\n")


@CASES.healthy("grpo: numbers as floats, compared as numbers", quiet=True, slow=True)
def compared_as_numbers(s):
    policy(s, "def score(completions, answer, **_):\n"
              "    found = [re.fullmatch(r' *(\\d{1,6}(?:\\.0)?) *', text(c)) for c in completions]\n"
              "    return [float(f is not None and float(f.group(1)) == a) for f, a in zip(found, answer)]\n",
           rows=[{**row, "answer": float(row["answer"])} for row in scene.prompt_rows()])


@CASES.healthy("grpo: temperature 0.7, top_p 0.95, top_k 20", quiet=True)
def usual_sampling(s):
    s.policy(temperature=0.7, top_p=0.95, top_k=20)


@CASES.healthy("grpo: a reward by length, and answers that would not fit", quiet=False)
def unrelated_answers(s):
    s.policy([{**row, "answer": " ".join(["5"] * 9)} for row in scene.prompt_rows()], reward_funcs=["length(target=2)"], max_completion_length=4)


# ---- rows
@CASES.healthy("sft: the model's own turns, written as text", quiet=True)
def own_marks(s):
    s.sft([{"text": f"<|im_start|>user\nWhat is {a} + {b}?<|im_end|>\n<|im_start|>assistant\n{a + b}"} for a, b in scene.sums(60)], **RATE)


@CASES.healthy("sft: questions as answers to long texts", quiet=False)
def questions_for_texts(s):
    s.sft([{"prompt": f"Ask for the sum of the two numbers {a} and {b} in one short sentence:", "completion": f" What is {a} + {b}?"}
           for a, b in scene.sums(60)], **RATE)


@CASES.healthy("sft: texts with a label and a source that are not read", quiet=True)
def labels_beside_texts(s):
    s.sft([{**row, "label": "easy" if i % 2 else "hard", "source": "sums", "answer": row["text"].split()[-1]} for i, row in enumerate(scene.text_rows())],
          **RATE)


@CASES.healthy("sft: conversations with a system turn in every second row", quiet=True)
def system_in_half(s):
    s.sft([{"messages": [{"role": "system", "content": "You add numbers."}, *row["messages"]] if i % 2 else row["messages"]}
           for i, row in enumerate(scene.message_rows())], **RATE)


@CASES.healthy("sft: accents, dashes and code with escapes", quiet=False)
def accents(s):
    s.sft([{"text": f"Où est l’été à {a} €?\nprint('{b}\\n')  # São Tomé, {a + b}°"} for a, b in scene.sums(60)], **RATE)


@CASES.healthy("sft: answers of one length", quiet=False)
def one_length(s):
    s.sft([{**row, "completion": f" {a} and {b} and {a + b:02d} are the numbers of this row"} for row, (a, b) in zip(scene.pair_rows(), scene.sums(60))], **RATE)


@CASES.healthy("sft: answers of many lengths, that end by themselves", quiet=False)
def many_lengths(s):
    words = "I begin at the first number and go on from there, one step at a time, until both are counted"
    s.sft([{**row, "completion": f" For {a} and {b}: {' '.join(words.split()[:3 + (7 * i) % 17])}: {a + b}."}
           for i, (row, (a, b)) in enumerate(zip(scene.pair_rows(), scene.sums(60)))], **RATE)


@CASES.healthy("sft: every fiftieth completion is empty", quiet=True, slow=True)
def rarely_empty(s):
    s.sft([{**row, "completion": row["completion"] if i % 50 else ""} for i, row in enumerate(scene.pair_rows())], **RATE)


@CASES.healthy("dpo: scores that agree with the pairs, and answers beside them", quiet=True)
def scores_agree(s):
    s.dpo([{**row, "score_chosen": 5.0, "score_rejected": 1.0 + i % 3, "answer": row["chosen"].strip()}
           for i, row in enumerate(scene.preference_rows())], **PREFERENCE)


@CASES.healthy("dpo: some chosen answers refuse", quiet=False)
def some_refuse(s):
    s.dpo([{**row, "chosen": row["chosen"] if i % 3 else " I'm sorry, but I can't"} for i, row in enumerate(scene.preference_rows())], **PREFERENCE)


@CASES.healthy("kto: labels as they should be, weights of 1 and 1.5", quiet=True)
def weighted(s):
    s.dpo([{"prompt": row["prompt"], "completion": row["chosen" if i % 2 else "rejected"], "label": bool(i % 2)}
           for i, row in enumerate(scene.preference_rows())], method="kto", undesirable_weight=1.5, **PREFERENCE)


@CASES.healthy("grpo: the whole model at 1e-5", quiet=False, slow=True)
def full_policy(s):
    s.policy(use_peft=False, lora_r=None, lora_dropout=None, lora_target_modules=None, learning_rate=1e-5)
