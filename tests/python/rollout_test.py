#!/usr/bin/env python3
"""rollout_func: what such a function returns, checked; and runs whose completions it makes, from hone.trl and from a file.

usage: tests/python/rollout_test.py [--hone PROGRAM]
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
from checks import PARITY, PROMPTS, QUICK, SOURCE, TINY, Tests, holds, raises, same

sys.path.append(str(SOURCE / "tests/parity"))
import rollout_cases

VOCABULARY, POSITIONS = 100, 64
GOOD = {"prompt_ids": [[1, 2], [3]], "completion_ids": [[4, 5, 6], [7]], "logprobs": [[-0.1, -0.2, -0.3], [0]]}


# ---- what a function returns

class Array:
    """As NumPy's and torch's have it."""

    def __init__(self, value):
        self.value = value

    def tolist(self):
        return self.value


def checked(**more):
    from hone import rollouts
    output = {**GOOD, **more}
    return rollouts.checked({name: value for name, value in output.items() if value != "absent"}, 2, VOCABULARY, POSITIONS)


def test_rollouts(_):
    """lists, tuples and arrays of ids are taken; None and NaN are log-probabilities that nobody knows; other keys are columns"""
    same(checked(), {**GOOD, "logprobs": [[-0.1, -0.2, -0.3], [0.0]], "env_mask": None, "columns": {}})
    found = checked(completion_ids=Array([[4, 5, 6], [7]]), prompt_ids=((1, 2), (3,)), logprobs=[[None, float("nan"), -1], Array([0])],
                    env_mask=[[1, 0, True], [1]], score=[1.5, Array([2])], name="all", none=None)
    same(found["logprobs"], [[None, None, -1.0], [0.0]])
    same(found["env_mask"], [[1, 0, 1], [1]])
    same(found["columns"], {"score": [1.5, [2]], "name": ["all", "all"], "none": [None, None]})
    same(checked(logprobs=None)["logprobs"], None)


BAD = [
    ("rollout_func must return keys ['logprobs'] in its output dict", {"logprobs": "absent"}),
    ("rollout_func must return keys ['completion_ids', 'logprobs']", {"logprobs": "absent", "completion_ids": "absent"}),
    ("2 lists in completion_ids", {"completion_ids": [[1]]}),
    ("tokens in completion_ids[1]", {"completion_ids": [[4, 5, 6], []]}),
    ("tokens in prompt_ids[0]", {"prompt_ids": [[], [1]]}),
    ("found: 100 at place 1", {"completion_ids": [[4, 100, 6], [7]]}),
    ("found: -1 at place 0", {"prompt_ids": [[1, 2], [-1]]}),
    ("whole numbers in completion_ids[0]", {"completion_ids": [[4, 5.5, 6], [7]]}),
    ("a list as completion_ids[1]", {"completion_ids": [[4, 5, 6], 7]}),
    ("3 values in logprobs[0], one for each token of completion_ids[0]; found: 2", {"logprobs": [[0, 0], [0]]}),
    ("numbers or None in logprobs[1]", {"logprobs": [[0, 0, 0], [[-1]]]}),
    ("3 values in env_mask[0]", {"env_mask": [[1, 0], [1]]}),
    ("1 for a token that the model drew and 0 for another in env_mask[1]", {"env_mask": [[1, 0, 1], [2]]}),
    ("2 lists in env_mask", {"env_mask": [[1, 0, 1]]}),
    ("2 values in the column 'score'", {"score": [1]}),
    ("in the column 'thing'", {"thing": [object(), object()]}),
    ("at most 64 tokens", {"prompt_ids": [[1, 2], [3] * 64]}),
]


def test_bad_rollouts(_):
    """what is no rollout is named with its key and its index, in TRL's words where TRL has them"""
    from hone import rollouts
    for words, more in BAD:
        raises(ValueError, words, lambda more=more: checked(**more))
    raises(ValueError, "a `return` is missing", lambda: rollouts.checked(None, 2, VOCABULARY, POSITIONS))
    raises(ValueError, "a list: rollout_func", lambda: rollouts.checked([1], 2, VOCABULARY, POSITIONS))


def test_requests(_):
    """prompts are texts, conversations or ids; overrides have vLLM's names, and those of transformers"""
    from hone import rollouts
    chat = [{"role": "user", "content": "hello"}]
    given = {"temperature": 0, "max_new_tokens": 3, "stop": "x", "top_k": -1, "n": 1, "logprobs": 0, "min_p": None}
    same(rollouts.request_of(["a", chat, [1, 2]], given, None),
         {"prompts": ["a", chat, [1, 2]], "overrides": {"temperature": 0, "max_tokens": 3, "stop": ["x"], "top_k": -1}})
    for words, prompts, overrides, as_chat in (
            ("expects n=1", ["a"], {"n": 2}, None), ("'seed'", ["a"], {"seed": 1}, None), ("'beams'", ["a"], {"beams": 1}, None),
            ("a temperature that sampling can take", ["a"], {"temperature": -1}, None), ("a whole number", ["a"], {"max_tokens": 1.5}, None),
            ("a max_tokens that", ["a"], {"max_tokens": 0}, None), ("a list of prompts", "a", None, None), ("prompt 1", ["a", 3], None, None),
            ("as_chat=True", ["a"], None, True), ("prompt 0", [chat], None, False), ("texts as", ["a"], {"stop": [""]}, None)):
        raises(ValueError, words, lambda p=prompts, o=overrides, c=as_chat: rollouts.request_of(p, o, c))


# ---- trainers

def trainer_of(folder, function, name="out", reward=None, **config):
    from hone import trl
    options = {"max_steps": 2, "num_generations": 2, "max_completion_length": 8, **QUICK, "per_device_train_batch_size": 4, **config}
    return trl.GRPOTrainer(TINY, reward or lengths, train_dataset=[dict(row) for row in PROMPTS], rollout_func=function,
                           args=trl.GRPOConfig(output_dir=str(folder / name), **options))


def lengths(completions, **kwargs):
    return [float(len(one)) for one in completions]


def by_itself(prompts, trainer):
    """Completions of a server's, so to speak."""
    ids = [[5, 6, 7 + n % 3] for n in range(len(prompts))]
    return {"prompt_ids": [[9, 8, 7]] * len(prompts), "completion_ids": ids, "logprobs": [[0.0] * 3] * len(prompts)}


def test_arguments(folder):
    """rollout_func is an argument and an attribute of GRPOTrainer, refused beside tools, and RLOOTrainer has none, as in TRL"""
    from hone import trl
    from hone.trl.experimental import openenv
    same(trainer_of(folder, by_itself)._settings["rollout"], "hone.caller:rollout")
    trainer = trainer_of(folder, None)
    same((trainer.rollout_func, "rollout" in trainer._settings), (None, False))
    trainer.rollout_func = by_itself
    same((trainer.rollout_func, trainer._settings["rollout"]), (by_itself, "hone.caller:rollout"))
    trainer.rollout_func = None
    same("rollout" in trainer._settings, False)
    raises(ValueError, "a function of (prompts, trainer)", lambda: trainer_of(folder, 3))
    both = {"rollout_func": by_itself, "tools": [by_itself]}
    raises(ValueError, "either rollout_func or tools", lambda: trl.GRPOTrainer(TINY, lengths, train_dataset=PROMPTS, **both))
    raises(ValueError, "GRPOTrainer(rollout_func=...)", lambda: trl.RLOOTrainer(TINY, lengths, train_dataset=PROMPTS, rollout_func=by_itself))
    raises(ValueError, "while train() runs", lambda: trl.generate_rollout_completions(trainer, ["a"]))
    same(openenv.generate_rollout_completions, trl.generate_rollout_completions)


# ---- runs

def rollouts_of(folder, name="out"):
    return [json.loads(line) for line in (folder / name / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()]


def test_run(folder):
    """the function gets each prompt num_generations times and makes what is trained on; its columns reach the rewards; masked tokens are read only"""
    seen, scored = [], []

    def rollout(prompts, trainer):
        seen.append((list(prompts), trainer.state.global_step, trainer.num_generations, trainer.model.training))
        out = by_itself(prompts, trainer)
        out["completion_ids"] = [[*ids, 11, 12, 13] for ids in out["completion_ids"]]
        return {**out, "logprobs": [[0.0] * 6] * len(prompts), "env_mask": [[1, 1, 1, 0, 0, 1]] * len(prompts),
                "env_reward": [float(n) for n in range(len(prompts))], "place": "here", "answer": ["other"] * len(prompts)}

    def reward(completions, env_reward, place, answer, **kwargs):
        scored.append((env_reward, place, answer))
        return env_reward

    trainer = trainer_of(folder, rollout, reward=reward, dump_rollouts=True)
    trainer.train()
    same(len(seen), 2)
    prompts, step, generations, training = seen[0]
    same((len(prompts), step, generations, training), (4, 0, 2, True))
    holds(prompts[0] == prompts[1] and prompts[2] == prompts[3] and prompts[0] != prompts[2], f"repeated prompts: {prompts}")
    same(seen[1][1], 1)
    same(scored[0], ([0.0, 1.0, 2.0, 3.0], ["here"] * 4, ["other"] * 4))
    batch = rollouts_of(folder)[0]
    same((batch["format"], batch["tools"], len(batch["prompts"])), ("hone-rollouts-2", False, 2))
    same([one["ids"] for one in batch["samples"]], [[5, 6, 7, 11, 12, 13], [5, 6, 8, 11, 12, 13], [5, 6, 9, 11, 12, 13], [5, 6, 7, 11, 12, 13]])
    same([one["given"] for one in batch["samples"]], [[[3, 5]]] * 4)
    same([len(one["sampling_logprobs"]) for one in batch["samples"]], [4] * 4)
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    same((logged[0]["completions/mean_length"], logged[0]["num_tokens"], "tools/call_frequency" in logged[0]), (4.0, 28.0, False))
    same(logged[0]["rewards/reward/mean"], 1.5)


def asking(overrides=None):
    from hone.trl import generate_rollout_completions

    def rollout(prompts, trainer):
        first = generate_rollout_completions(trainer, prompts, generation_overrides=overrides)
        second = generate_rollout_completions(trainer, [[*one["prompt_ids"], *one["completion_ids"], 17] for one in first])
        out = {name: [one[name] for one in second] for name in ("prompt_ids", "completion_ids", "logprobs")}
        return {**out, "text": [one["text"] for one in second], "before": [one["completion_ids"] for one in first]}

    return rollout


def test_completions(folder):
    """completions that it asks for are sampled with the weights of now: the same in each run, with any threads, and when resumed"""
    def run(name, **config):
        trainer = trainer_of(folder, asking(), name, dump_rollouts=True, save_strategy="steps", save_steps=1, learning_rate=0.05, **config)
        trainer.train()
        return trainer, rollouts_of(folder, name)

    trainer, first = run("first")
    same(run("threads", threads=2)[1], first, "threads")
    samples = first[0]["samples"]
    same(len(first[0]["prompts"]), 4, "prompts of their own")
    holds(samples[0]["ids"] != samples[1]["ids"] and first[1]["samples"] != samples, "draws of their own")
    for one in samples:
        holds(len(one["sampling_logprobs"]) == len(one["ids"]) and all(value < 0 for value in one["sampling_logprobs"]), f"log-probabilities: {one}")
        holds(len(one["ids"]) <= 8, "max_completion_length")
    again = trainer_of(folder, asking(), "first", dump_rollouts=True, save_strategy="steps", save_steps=1, learning_rate=0.05)
    again.train(resume_from_checkpoint=str(folder / "first/checkpoint-1"))
    same(rollouts_of(folder, "first"), first, "resumed")


def test_overrides(folder):
    """generation_overrides reach the sampler; what it refuses is an exception in the function, which train() raises"""
    seen = []

    def rollout(prompts, trainer):
        short = trainer.generate_rollout_completions(prompts, generation_overrides={"max_tokens": 2, "temperature": 0})
        seen.append([one["completion_ids"] for one in short])
        try:
            trainer.generate_rollout_completions([[1] * 5000])
        except ValueError as error:
            seen.append(str(error))
        trainer.generate_rollout_completions([[1 << 20]])

    raises(ValueError, "ids from 0 to 383", lambda: trainer_of(folder, rollout).train())
    holds(all(len(ids) <= 2 for ids in seen[0]) and seen[0][0] == seen[0][1], f"greedy: {seen[0]}")
    holds("positions" in seen[1], seen[1])


def test_off_policy(folder):
    """where a batch feeds several steps, old log-probabilities are the trained model's; evaluation calls the function too; a replay calls nobody"""
    modes = []

    def rollout(prompts, trainer):
        modes.append((trainer.model.training, len(prompts)))
        return asking()(prompts, trainer)

    def reward(completions, completion_ids, **kwargs):
        return [float(sum(ids)) for ids in completion_ids]

    trainer = trainer_of(folder, rollout, reward=reward, dump_rollouts=True, num_iterations=2, eval_strategy="steps", eval_steps=2,
                         num_generations_eval=2, per_device_eval_batch_size=4, learning_rate=0.01, max_steps=4)
    trainer.eval_dataset = PROMPTS[:2]
    trainer.train()
    same(sorted(set(modes)), [(False, 4), (True, 4)])
    same(len([one for one in modes if one[0]]), 2, "a batch for two steps")
    for batch in rollouts_of(folder):  # the sampler and the trained model are one: what was drawn from is what a pass finds
        for one in batch["samples"]:
            same(len(one["old_logprobs"]), len(one["ids"]))
            holds(max(abs(a - b) for a, b in zip(one["old_logprobs"], one["sampling_logprobs"])) < 1e-4, f"{one}")
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    holds(any("eval_loss" in entry for entry in trainer.state.log_history), "an evaluation")
    same(logged[0]["loss"] == logged[1]["loss"], False, "the second step is off policy")
    other = trainer_of(folder, lambda *_: 1 / 0, "replayed", replay=str(folder / "out/rollouts.jsonl"), num_iterations=2, learning_rate=0.01,
                       max_steps=4)
    other.train()
    same([entry["loss"] for entry in other.state.log_history if "loss" in entry], [entry["loss"] for entry in logged])


def test_as_trl(folder):
    """losses, gradients and all metrics are those that TRL logs with the same function: masks, own prompts, old log-probabilities, evaluation"""
    from hone import trl
    recorded = json.loads((PARITY / "trl_rollouts.json").read_text(encoding="utf-8"))["cases"]
    rows = [{"prompt": prompt} for prompt in rollout_cases.PROMPTS]
    same(sorted(recorded), sorted(rollout_cases.CASES))
    for name, (more, masks) in rollout_cases.CASES.items():
        args = trl.GRPOConfig(output_dir=str(folder / name), threads=1, skip_doctor=True, report_to="none", **{**rollout_cases.SHARED, **more})
        trainer = trl.GRPOTrainer(TINY, rollout_cases.reward, args=args, train_dataset=rows, eval_dataset=rows[:2],
                                  rollout_func=rollout_cases.rollout_of(masks))
        trainer.train()
        found = rollout_cases.logged(trainer)
        same([entry["step"] for entry in found], [entry["step"] for entry in recorded[name]], name)
        for ours, theirs in zip(found, recorded[name]):
            same(sorted(set(theirs) - set(ours)), [], f"{name}: names")
            for key, value in theirs.items():
                holds(close(ours[key], value), f"{name}, step {ours['step']}, {key}: TRL has {value}, hone {ours[key]}")


def close(ours, theirs):
    if theirs is None or ours is None:
        return theirs is None and (ours is None or ours != ours)
    return abs(ours - theirs) <= 2e-6 + 2e-5 * abs(theirs)


def test_failures(folder):
    """what the function raises ends the run, is raised by train(), and loses no step; so does what is no rollout"""
    calls = []

    def rollout(prompts, trainer):
        calls.append(1)
        if len(calls) == 2:
            raise ZeroDivisionError("second batch")
        return by_itself(prompts, trainer)

    raises(ZeroDivisionError, "second batch", lambda: trainer_of(folder, rollout, save_strategy="steps", save_steps=10).train())
    holds((folder / "out/checkpoint-1").is_dir(), "the step before is saved")
    raises(ValueError, "rollout_func must return keys", lambda: trainer_of(folder, lambda *_: {"prompt_ids": []}, "missing").train())
    raises(ValueError, "generate_rollout_completions", lambda: trainer_of(folder, lambda _, trainer: trainer.model.generate(), "model").train())


FILE = '''
def rollout(prompts, trainer):
    print("rolled", len(prompts), trainer.state.global_step, trainer.num_generations, trainer.args.max_steps)
    made = trainer.generate_rollout_completions(prompts)
    return {**{key: [one[key] for one in made] for key in ("prompt_ids", "completion_ids", "logprobs")}, "size": [len(one["text"]) for one in made]}


def raises(prompts, trainer):
    raise KeyError("seven")


def one_argument(prompts):
    return {}


def score(completions, size, **kwargs):
    return [float(len(one) == n) for one, n in zip(completions, size)]
'''


def test_file(folder):
    """`rollout: rollout.py:function` of a YAML file works alike; what it raises is shown with its traceback"""
    import subprocess
    (folder / "rollout.py").write_text(FILE, encoding="utf-8")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PROMPTS), encoding="utf-8")

    def run(function, method="grpo", **more):
        options = {"model_name_or_path": TINY, "dataset_name": "rows.jsonl", "reward_funcs": "rollout.py:score", "rollout": f"rollout.py:{function}",
                   "output_dir": "out", "use_peft": True, "max_steps": 1, "num_generations": 2, "max_completion_length": 6, **QUICK, **more,
                   "per_device_train_batch_size": 4, "report_to": "none"}
        text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items())
        (folder / "run.yaml").write_text(text, encoding="utf-8")
        return subprocess.run([os.environ["HONE_PROGRAM"], method, "--config", "run.yaml"], cwd=folder, capture_output=True, text=True, timeout=300)

    for method in ("grpo", "rloo"):
        done = run("rollout", method, output_dir=method)
        same(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        last = json.loads((folder / method / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])
        same(last["rewards/score/mean"], 1.0, method)
    failed = run("raises", output_dir="raises")
    holds(failed.returncode != 0 and "KeyError: 'seven'" in failed.stderr and "rollout.py" in failed.stderr, failed.stderr[-2000:])
    for function, words in (("one_argument", "a function of (prompts, trainer)"), ("rolout", "did you mean rollout?")):
        done = run(function, output_dir="bad")
        holds(done.returncode == 2 and words in done.stderr, done.stderr[-2000:])
    done = run("rollout", output_dir="bad", tools="hone.tools.calculator")
    holds(done.returncode == 2 and "either a rollout function or tools" in done.stderr, done.stderr[-2000:])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--hone")
    given = options.parse_args()
    if given.hone:
        os.environ["HONE_PROGRAM"] = str(pathlib.Path(given.hone).resolve())
    tests = Tests()
    for function in [value for name, value in sorted(globals().items()) if name.startswith("test_")]:
        with tempfile.TemporaryDirectory(prefix="hone-rollout-") as folder:
            tests.run([function], pathlib.Path(folder))
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
