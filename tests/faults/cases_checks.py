"""Checks of many rows together, of checkpoints, and of rewards under attack: NUM-12, DATA-13, DATA-16, DATA-17, RL-07."""
from fault import Cases

CASES = Cases()
# Made at random for these cases; it was never in use.
KEY = "q8Zt3LmV0xR7cKp2Yb9N" + "dW5sHfJ4gTa6"


def words(row, count):
    return " ".join(f"w{row}x{i}" for i in range(count))


def told(count=60, answer=lambda i: f" It is {words(i + 1000, 8)}."):
    return [{"prompt": f"Tell me of {words(i, 4)}", "completion": answer(i)} for i in range(count)]


@CASES.fault("DATA-13", "every row a second time with another last word", level="warn", exactly=True, cause="nearly repeat another one")
def near_copies(s):
    s.sft([{**row, "completion": row["completion"] + f" {i}"} for row in told(30, lambda i: " " + words(i + 1000, 20)) for i in range(2)])


@CASES.fault("DATA-13", "a set of the mixture is a part of the other", level="warn", exactly=True, cause="is inside the set")
def set_inside(s):
    s.rows(told(20), "part.jsonl")
    s.sft(told(200), dataset_name=None, datasets=[{"path": "rows.jsonl"}, {"path": "part.jsonl"}])


@CASES.fault("DATA-16", "answers that run in a circle", level="warn", exactly=True, cause="repeats one line")
def circles(s):
    s.sft(told(answer=lambda i: "\n".join([f" It is w{i}."] * (8 if i % 10 == 0 else 1))))


@CASES.fault("DATA-16", "think blocks in half of the answers", level="warn", exactly=True, cause="the others have none")
def mixed_reasoning(s):
    s.sft(told(240, lambda i: ("<think>\nso\n</think>\n" if i % 2 else "") + f" It is {words(i + 1000, 6)}."))


@CASES.fault("DATA-16", "a switch in the prompt says which answers think", level="ok", exactly=True, cause="in their places")
def switched_reasoning(s):
    s.sft([{"prompt": row["prompt"] + (" /think" if i % 2 else " /no_think"), "completion": row["completion"]}
           for i, row in enumerate(told(240, lambda i: ("<think>\nso\n</think>\n" if i % 2 else "") + f" It is {words(i + 1000, 6)}."))])


@CASES.fault("DATA-16", "answers that a generator cut at one number of tokens", level="warn", cause="tokens that ends within a sentence")
def cut_tokens(s):
    whole = [{"prompt": f"say {n}", "completion": f" {n % 10}" + " and" * (6 + n % 20) + "."} for n in range(80)]
    s.sft(whole + [{"prompt": f"tell {n}", "completion": f" {n}" + " and" * 40} for n in range(10)])


@CASES.fault("DATA-16", "answers of another assistant", level="warn", exactly=True, cause="speaks as another assistant")
def identity(s):
    s.sft(told(answer=lambda i: f" I'm ChatGPT. {words(i + 1000, 5)}" if i % 10 == 0 else f" It is {words(i + 1000, 5)}."))


@CASES.fault("DATA-17", "a token of a hub in one prompt", level="warn", exactly=True, cause="a Hugging Face token")
def secret(s):
    rows = told()
    rows[7]["prompt"] = f"HF_TOKEN=hf_{KEY}"
    s.sft(rows)


@CASES.fault("DATA-17", "a placeholder for a token", level="ok", exactly=True, cause="no secret")
def placeholder(s):
    rows = told()
    rows[7]["prompt"] = "HF_TOKEN=hf_your_token_goes_here_and_is_long_enough"
    s.sft(rows)


@CASES.fault("NUM-12", "evaluations at 50, 100, ..., and a checkpoint at 500 of 400 steps", level="warn", exactly=True, cause="no multiple of eval_steps")
def best_not_saved(s):
    s.rows([{"text": f"Held out {words(i, 5)}"} for i in range(8)], "eval.jsonl")
    s.sft(eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=50, save_strategy="steps", save_steps=500, max_steps=400)


@CASES.fault("NUM-12", "the same with a checkpoint at each evaluation", level="ok", exactly=True, cause="have a checkpoint")
def best_saved(s):
    s.rows([{"text": f"Held out {words(i, 5)}"} for i in range(8)], "eval.jsonl")
    s.sft(eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=50, save_strategy="steps", save_steps=50, max_steps=400)


@CASES.fault("RL-07", "six tenths of a reward for a box, whatever is in it", level="warn", exactly=True, cause="needs no task")
def form_pays(s):
    s.python("""
def mostly_form(completions, answer, **_):
    said = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    return [0.6 * ("boxed" in text) + 0.4 * (right in text) for text, right in zip(said, answer)]
""")
    s.policy(reward_funcs=["rewards.py:mostly_form"])
