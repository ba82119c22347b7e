#!/usr/bin/env python3
"""One GRPO + LoRA configuration in hone and in TRL, in turn, on the same model folder, prompts and reward function: seconds a step
and of its parts, rollout and training tokens a second, share of the machine's limit, peak memory, and the ratio pair by pair. With
--sweep: step time against prompt length and group size, as a table and a chart. What is counted, and how: docs/benchmarks.md.

usage: bench/grpo_beside_trl.py --model FOLDER --out bench/results/NAME.md [--prompt 32] [--group 8] [--completion 64] [--pairs 3] [--steps 4]
                                [--gradient_checkpointing] [--recompute auto|none|cheap|layer] [--quick]
       bench/grpo_beside_trl.py --model FOLDER --out bench/results/NAME.md --sweep [--prompts 32,128,512,1024,2048] [--groups 2,4,8,16,32]
                                [--trl_most_tokens 4700] [--no_trl] [--quick]
Every completion has exactly --completion tokens on both sides (min_new_tokens), every prompt exactly --prompt. The reward is one Python
function for both: hone calls it in its worker process. --trl_most_tokens: points with more tokens in a step (group x (prompt +
completion)) are measured in hone alone, and the result says so: TRL takes minutes and tens of GB there.
Needs build/hone, build/bench_probe and tests/parity/setup's environment. Run it on an idle machine.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from chart import chart
from grpo_limit import Limit
from sampled_steps import medians, sampled_steps
from setting import PYTHON, Run, better, build, precision_words, probe, rates_sentence, setting, table, warm

# Deterministic, and practically never the mean of its group: hone does not train on rows whose advantage is 0, TRL does.
REWARD = "def letters(completions, **_):\n    return [sum(map(ord, text)) % 9973 / 9973 for text in completions]\n"

ROWS = r'''
import json, sys
from tokenizers import Tokenizer
o = json.loads(sys.argv[1]); tokenizer = Tokenizer.from_file(o["model"] + "/tokenizer.json")
words = "river stone winter seven carries little bridge under morning letter window quiet market ladder silver people water house green".split()
words = [word for word in words if len(tokenizer.encode(" " + word).ids) == 1]
with open(o["data"], "w", encoding="utf-8") as out:
    for row in range(64):
        text = "".join(" " + words[(row * 7 + i * i + 3 * i) % len(words)] for i in range(o["prompt"]))
        assert len(tokenizer.encode(text).ids) == o["prompt"], "a prompt's tokens"
        out.write(json.dumps({"prompt": text}) + "\n")
'''

TRL = r'''
import json, sys, time
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer
o = json.loads(sys.argv[1]); torch.set_num_threads(o["threads"]); sys.path.insert(0, o["rewards"])
from letters_reward import letters
steps, first = [], []
class Clock(TrainerCallback):
    def on_step_begin(self, *_, **__): first.append(time.time()); steps.append(dict(rollout=0, reward=0)); self.started = time.perf_counter()
    def on_step_end(self, *_, **__): steps[-1]["seconds"] = time.perf_counter() - self.started
class Timed(GRPOTrainer):
    def timed(self, part, what, *more):
        started = time.perf_counter(); out = what(*more); steps[-1][part] += time.perf_counter() - started
        return out
    def _generate(self, *more): return self.timed("rollout", super()._generate, *more)
    def _calculate_rewards(self, *more): return self.timed("reward", super()._calculate_rewards, *more)
args = GRPOConfig(output_dir=o["out"], max_steps=o["steps"], bf16=not o.get("float32"), use_cpu=True, gradient_checkpointing=o["checkpointing"], logging_steps=1,
                  save_strategy="no", learning_rate=1e-5, model_init_kwargs=dict(dtype="float32" if o.get("float32") else "bfloat16"), disable_tqdm=True, report_to="none",
                  per_device_train_batch_size=o["group"], num_generations=o["group"], max_completion_length=o["completion"], beta=0.0,
                  generation_kwargs=dict(min_new_tokens=o["completion"]))
trainer = Timed(o["model"], reward_funcs=letters, args=args, train_dataset=Dataset.from_list([json.loads(line) for line in open(o["data"])]),
                peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"), callbacks=[Clock()])
trainer.train()
logs = [entry for entry in trainer.state.log_history if "num_tokens" in entry]
print("RESULT", json.dumps({"steps": steps, "first": first[0], "num_tokens": logs[-1]["num_tokens"],
                            "shortest": min(entry["completions/min_length"] for entry in logs)}), flush=True)
'''


def rows(o):
    subprocess.run([PYTHON, "-c", ROWS, json.dumps(o)], check=True)


def checked(who, o, num_tokens, shortest):
    """Equal work: each step has group x (prompt + completion) tokens."""
    expected = o["steps"] * o["group"] * (o["prompt"] + o["completion"])
    if num_tokens != expected or shortest != o["completion"]:
        raise SystemExit(f"{who} had {num_tokens:.0f} tokens, not {expected}; its shortest completion {shortest:.0f}, not {o['completion']}")


def hone(o, folder):
    words = [build("hone"), "grpo", "--model_name_or_path", o["model"], "--dataset_name", o["data"], "--output_dir", folder,
             "--use_peft", "true", "--lora_r", 16, "--lora_alpha", 32, "--lora_dropout", 0, "--lora_target_modules", "all-linear",
             *precision_words(o), "--learning_rate", 1e-5, "--max_steps", o["steps"],
             "--per_device_train_batch_size", o["group"], "--num_generations", o["group"], "--max_completion_length", o["completion"],
             "--generation_kwargs", json.dumps({"min_new_tokens": o["completion"]}), "--beta", 0, "--python", PYTHON,
             "--reward_funcs", f"{o['rewards']}/letters_reward.py:letters", "--logging_steps", 1, "--save_strategy", "no",
             "--report_to", "none", "--threads", o["threads"], "--recompute", o["recompute"]]
    warm(o["model"])
    run = Run(words, o["threads"])
    first, steps, logs = sampled_steps(run, folder, o["steps"])
    checked("hone", o, logs[-1]["num_tokens"], min(entry["completions/min_length"] for entry in logs))
    return dict(medians(steps), peak_mb=run.peak_mb, start=first, skipped=sum(entry.get("skipped_rows", 0) for entry in logs))


def trl(o, folder):
    warm(o["model"])
    run = Run([PYTHON, "-W", "ignore", "-c", TRL, json.dumps(dict(o, out=folder))], o["threads"], o.get("level"))
    result = run.result()
    checked("TRL", o, result["num_tokens"], result["shortest"])
    steps = [dict(step, train=step["seconds"] - step["rollout"] - step["reward"]) for step in result["steps"]]
    return dict(medians(steps), peak_mb=run.peak_mb, start=result["first"] - run.began)


def options(a, temporary, **more):
    o = dict(model=a.model, threads=a.threads, prompt=a.prompt, group=a.group, completion=a.completion, steps=a.steps,
             checkpointing=a.gradient_checkpointing, recompute=a.recompute or ("layer" if a.gradient_checkpointing else "none"),
             rewards=temporary, data=os.path.join(temporary, "train.jsonl")) | more
    rows(o)
    return o


def heading(a, o, lines_of_setting, found, what):
    checkpointing = "gradient checkpointing in TRL, recompute layer in hone" if a.gradient_checkpointing else "no checkpointing in TRL"
    return [f"# GRPO + LoRA r 16 all-linear, bf16, {what}, {a.threads} threads: hone beside TRL", "",
            f"model {pathlib.Path(a.model).name}; one prompt a step, {a.completion} new tokens each (no end before them on either side), beta 0, dropout 0, "
            f"learning rate 1e-5; {checkpointing}; hone: recompute {o['recompute']}; one Python reward for both; file cache warm.", "",
            *lines_of_setting, f"- {rates_sentence(found)}", ""]


def pairs_report(a, o, results, found, lines_of_setting):
    limit = Limit(found, a.model, o["recompute"])
    bound = limit.step(a.prompt, a.group, a.completion)
    new, trained = a.group * a.completion, a.prompt + a.group * a.completion
    lines = heading(a, o, lines_of_setting, found, f"prompt {a.prompt}, group {a.group}, {a.completion} new tokens")
    lines += [f"{a.pairs} pairs in turn, {a.steps} steps each, the first left out, median of the rest.", "", "Limit of a step, seconds:", "",
              *table(["counted", "rollout", "train", "step"],
                     [[name, *(f"{bound[part + suffix]:.2f}" for part in ("rollout", "train", "step"))]
                      for name, suffix in (("matrices and head", ""), ("with attention, keys and values, LoRA", "_all"))]), ""]
    head = ["pair", "who", "step s", "rollout s", "reward s", "train s", "rollout tok/s", "train tok/s", "share", "MB", "start s", "ratio"]
    body = []
    for pair, (ours, theirs) in enumerate(results, 1):
        for who, one in (("hone", ours), ("TRL", theirs)):
            body.append([pair, who, *(f"{one[part]:.2f}" for part in ("seconds", "rollout", "reward", "train")), f"{new / one['rollout']:.0f}",
                         f"{trained / one['train']:.0f}", f"{100 * bound['step'] / one['seconds']:.0f} %", f"{one['peak_mb']:.0f}", f"{one['start']:.1f}",
                         f"{theirs['seconds'] / ours['seconds']:.2f}" if who == "hone" else ""])
    lines += table(head, body)
    lines += ["", "Medians: ratio {:.2f}; ".format(statistics.median(t["seconds"] / h["seconds"] for h, t in results))
              + "; ".join(sentence(who, [pair[side] for pair in results], bound) for side, who in enumerate(("hone", "TRL"))) + ".", "",
              f"Rollout tok/s: {new} new tokens over the rollout's seconds. Train tok/s: {trained} tokens (prompt once) over the training pass's. Share: the limit "
              f"of a step (matrices and head) over its seconds. MB: VmHWM of the main process. Rows whose advantage was 0, which hone does not train on: "
              f"{sum(ours['skipped'] for ours, _ in results):.0f} of {a.pairs * a.steps * a.group}.", "",
              f"`bench/grpo_beside_trl.py --model {pathlib.Path(a.model).name} --prompt {a.prompt} --group {a.group} --completion {a.completion} "
              f"--steps {a.steps} --pairs {a.pairs} --recompute {o['recompute']}{' --gradient_checkpointing' if a.gradient_checkpointing else ''}`", ""]
    return "\n".join(lines)


def sentence(who, runs, bound):
    m = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    shares = [f"{part} {m[key]:.2f} s ({100 * bound[part] / m[key]:.0f} %)" for part, key in (("step", "seconds"), ("rollout", "rollout"), ("train", "train"))]
    return f"{who} {', '.join(shares)} of the limit, {100 * bound['step_all'] / m['seconds']:.0f} % with attention, keys and values, LoRA; {m['peak_mb']:.0f} MB"


def run_pairs(a, temporary):
    lines_of_setting, o, results = setting(a.threads, ("torch", "trl", "peft", "transformers")), options(a, temporary), []
    found = probe(a.model, a.threads, a.quick)
    for pair in range(1, a.pairs + 1):
        ours, theirs = hone(o, f"{temporary}/hone{pair}"), trl(o, f"{temporary}/trl{pair}")
        results.append((ours, theirs))
        print(f"pair {pair}: " + "; ".join(f"{who} {one['seconds']:.2f} s (rollout {one['rollout']:.2f}, train {one['train']:.2f}), {one['peak_mb']:.0f} MB"
                                           for who, one in (("hone", ours), ("TRL", theirs)))
              + f"; ratio {theirs['seconds'] / ours['seconds']:.2f}", flush=True)
    found = better(found, probe(a.model, a.threads, a.quick))
    a.out.write_text(pairs_report(a, o, results, found, lines_of_setting), encoding="utf-8")


def sweep_points(a):
    """(prompt, group): every prompt length at --group, every group at --prompt."""
    return list(dict.fromkeys([(prompt, a.group) for prompt in a.prompts] + [(a.prompt, group) for group in a.groups]))


def sweep_report(a, o, points, found, lines_of_setting):
    limit = Limit(found, a.model, o["recompute"])
    body = []
    for (prompt, group), (ours, theirs) in points.items():
        bound = limit.step(prompt, group, a.completion)["step"]
        body.append([prompt, group, f"{ours['seconds']:.2f}", f"{theirs['seconds']:.2f}" if theirs else "left out",
                     f"{theirs['seconds'] / ours['seconds']:.1f}" if theirs else "", f"{bound:.2f}", f"{100 * bound / ours['seconds']:.0f} %",
                     f"{ours['peak_mb']:.0f}", f"{theirs['peak_mb']:.0f}" if theirs else ""])
    left_out = [f"prompt {prompt} x group {group}" for (prompt, group), (_, theirs) in points.items() if not theirs]
    svg = a.out.with_suffix(".svg")
    panels = []
    for title, pick in ((f"prompt tokens, group {a.group}", lambda p: p[0] if p[1] == a.group and p[0] in a.prompts else None),
                        (f"completions a prompt, prompt {a.prompt}", lambda p: p[1] if p[0] == a.prompt and p[1] in a.groups else None)):
        mine = sorted((pick(point), point) for point in points if pick(point))
        panels.append({"title": title, "lines": {
            "TRL": [(x, points[p][1]["seconds"]) for x, p in mine if points[p][1]],
            "hone": [(x, points[p][0]["seconds"]) for x, p in mine],
            "limit": [(x, limit.step(*p, a.completion)["step"]) for x, p in mine]}})
    svg.write_text(chart(f"Seconds a GRPO step, {pathlib.Path(a.model).name}, {a.completion} new tokens, {a.threads} threads", panels), encoding="utf-8")
    steps = ", ".join(f"{count} in {who}, the first left out" for count, who in ((a.steps, "hone"), (2, "TRL")))
    return "\n".join([*heading(a, o, lines_of_setting, found, "step time against prompt length and group size"), f"![chart]({svg.name})", "",
                      f"Steps a point: {steps}.", "",
                      *table(["prompt", "group", "hone s", "TRL s", "ratio", "limit s", "hone share", "hone MB", "TRL MB"], body), "",
                      *([f"TRL was not measured at {'; '.join(left_out)}: more than {a.trl_most_tokens} tokens a step." if not a.no_trl else
                         "TRL was not measured.", ""] if left_out else []),
                      f"`bench/grpo_beside_trl.py --model {pathlib.Path(a.model).name} --sweep --prompts {','.join(map(str, a.prompts))} --groups "
                      f"{','.join(map(str, a.groups))} --prompt {a.prompt} --group {a.group} --completion {a.completion} --steps {a.steps} "
                      f"--trl_most_tokens {a.trl_most_tokens}{' --no_trl' if a.no_trl else ''}`", ""])


def run_sweep(a, temporary):
    lines_of_setting, points = setting(a.threads, ("torch", "trl", "peft", "transformers")), {}
    found = probe(a.model, a.threads, a.quick)
    for number, (prompt, group) in enumerate(sweep_points(a)):
        o = options(a, temporary, prompt=prompt, group=group)
        with_trl = not a.no_trl and group * (prompt + a.completion) <= a.trl_most_tokens
        points[prompt, group] = (hone(o, f"{temporary}/hone{number}"), trl(dict(o, steps=2), f"{temporary}/trl{number}") if with_trl else None)
        said = "; ".join(f"{who} {one['seconds']:.2f} s" for who, one in zip(("hone", "TRL"), points[prompt, group]) if one)
        print(f"prompt {prompt}, group {group}: {said}", flush=True)
        a.out.write_text(sweep_report(a, o, points, found, lines_of_setting), encoding="utf-8")  # what there is, should the next one fail


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    for name, default in dict(prompt=32, group=8, completion=64, pairs=3, steps=4, threads=2, trl_most_tokens=4700).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--gradient_checkpointing", action="store_true")
    parser.add_argument("--recompute", choices=("auto", "none", "cheap", "layer"))
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--prompts", type=numbers, default=[32, 128, 512, 1024, 2048])
    parser.add_argument("--groups", type=numbers, default=[2, 4, 8, 16, 32])
    parser.add_argument("--no_trl", action="store_true", help="a sweep of hone alone")
    parser.add_argument("--quick", action="store_true", help="one pair (or a few points) of small steps: does it run?")
    a = parser.parse_args()
    if a.quick:
        a.pairs, a.steps, a.group, a.completion, a.prompts, a.groups = 1, 2, 4, 8, [32, 64], [2, 4]
    if a.steps < 2:
        parser.error("--steps: the first is left out, so at least 2")
    with tempfile.TemporaryDirectory() as temporary:
        pathlib.Path(temporary, "letters_reward.py").write_text(REWARD, encoding="utf-8")
        (run_sweep if a.sweep else run_pairs)(a, temporary)
    print(a.out)


if __name__ == "__main__":
    main()
