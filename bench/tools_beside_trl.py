#!/usr/bin/env python3
"""The calculator example (examples/calculator) as hone and TRL train it, in turn: the same model folder, adapter, chat template, questions,
tool, reward, batch and bound of a completion. Seconds a step and of its parts, tokens and calls a completion, peak memory, and the ratio
pair by pair. With --learn: what both have learned in the same seconds.

usage: bench/tools_beside_trl.py --model models/smollm2-f32 --out bench/results/NAME.md [--adapter runs/calculator/sft] [--questions 4]
                                 [--group 8] [--completion 96] [--steps 4] [--pairs 2] [--threads 2] [--learn] [--quick]
--adapter: what both go on with, from stage 1 of the example; without it that stage is run first, a minute on an idle machine. How long a
completion is follows from what the model draws: both sides' means stand in the result, and a warning where they differ by more than 10 %.
In the pairs the reward never ties, so that hone, which does not train on rows without an advantage, trains on all of them, as TRL does.
--learn, after the pairs: hone trains with the example's own reward, steps and rate (grpo.yaml), then TRL does for as many seconds as hone's
steps took. hone then answers the example's held-out questions with the adapter before, hone's and TRL's.
Needs build/hone and tests/parity/setup's environment. Run it on an idle machine.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from sampled_steps import medians, sampled_steps
from setting import PYTHON, SOURCE, Run, build, setting, table, warm

EXAMPLE = SOURCE / "examples/calculator"
LEARNING_RATE = 1e-5  # so small that the completions of all steps are as long as those of the first

REWARD = "def letters(completions, **_):\n    return [sum(map(ord, repr(turns))) % 9973 / 9973 for turns in completions]\n"

TRL = r'''
import json, sys, time
import torch
from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_template
o = json.loads(sys.argv[1]); torch.set_num_threads(o["threads"]); sys.path[:0] = [o["rewards"], o["python"]]
from hone.tools import calculator
reward = getattr(__import__(o["reward"][0]), o["reward"][1])
steps, first = [], []
class Clock(TrainerCallback):
    def on_step_begin(self, *_, **__): first.append(time.time()); steps.append(dict(rollout=0, reward=0)); self.started = time.perf_counter()
    def on_step_end(self, args, state, control, **__):
        steps[-1]["seconds"] = time.perf_counter() - self.started
        control.should_training_stop |= 0 < o["seconds"] <= sum(step["seconds"] for step in steps)
class Timed(GRPOTrainer):
    def timed(self, part, what, *more):
        started = time.perf_counter(); out = what(*more); steps[-1][part] += time.perf_counter() - started
        return out
    def _generate(self, *more): return self.timed("rollout", super()._generate, *more)
    def _calculate_rewards(self, *more): return self.timed("reward", super()._calculate_rewards, *more)
tokenizer = AutoTokenizer.from_pretrained(o["model"])
tokenizer.chat_template, tokenizer.response_template = open(o["template"]).read(), qwen3_template
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(o["model"], dtype=torch.bfloat16), o["adapter"], is_trainable=True)
args = GRPOConfig(output_dir=o["out"], max_steps=o["steps"], bf16=True, use_cpu=True, gradient_checkpointing=False, logging_steps=1,
                  save_strategy="no", learning_rate=o["learning_rate"], disable_tqdm=True, report_to="none", beta=0.0,
                  shuffle_dataset=False, warmup_steps=o["warmup"],
                  per_device_train_batch_size=o["batch"], num_generations=o["group"], max_completion_length=o["completion"],
                  max_tool_calling_iterations=2)
trainer = Timed(model, reward_funcs=reward, args=args, train_dataset=load_dataset("json", data_files=o["data"], split="train"),
                processing_class=tokenizer, tools=[calculator], callbacks=[Clock()])
trainer.train()
trainer.save_model(o["out"])
print("RESULT", json.dumps({"steps": steps, "first": first[0],
                            "logs": [entry for entry in trainer.state.log_history if "num_tokens" in entry]}), flush=True)
'''

def words_of(o, folder):
    """hone's command; what it has in common with TRL's is `o`."""
    return [build("hone"), "grpo", "--model_name_or_path", o["model"], "--adapter_name_or_path", o["adapter"], "--chat_template", o["template"],
            "--dataset_name", o["data"], "--shuffle_dataset", "false", "--output_dir", folder, "--use_peft", "true", "--dtype", "bfloat16",
            "--bf16", "true", "--tools", "hone.tools.calculator", "--max_tool_calling_iterations", 2, "--beta", 0, "--learning_rate",
            o["learning_rate"], "--warmup_steps", o["warmup"], "--max_steps", o["steps"], "--per_device_train_batch_size", o["batch"],
            "--num_generations", o["group"], "--max_completion_length", o["completion"],
            "--reward_funcs", f"{o['rewards']}/{o['reward'][0]}.py:{o['reward'][1]}", "--python", PYTHON, "--logging_steps", 1, "--save_strategy", "no", "--report_to", "none", "--threads", o["threads"], "--recompute", "none",
            "--skip_doctor", "true"]  # it would say that this reward reads the tool's messages too


def told(logs):
    """What both log, over the steps but the first: lengths in drawn and given tokens, calls a completion, failed ones."""
    mean = lambda name: statistics.mean(entry[name] for entry in logs[1:])
    return {"tokens": mean("completions/mean_length"), "calls": mean("tools/call_frequency"), "failed": mean("tools/failure_frequency")}


def hone(o, folder):
    warm(o["model"])
    run = Run(words_of(o, folder), o["threads"])
    first, steps, logs = sampled_steps(run, folder, o["steps"])
    return dict(medians(steps), **told(logs), count=len(steps), all=sum(step["seconds"] for step in steps), peak_mb=run.peak_mb, start=first,
                skipped=sum(entry.get("skipped_rows", 0) for entry in logs))


def trl(o, folder):
    warm(o["model"])
    run = Run([PYTHON, "-W", "ignore", "-c", TRL, json.dumps(dict(o, out=folder))], o["threads"])
    result = run.result()
    steps = [dict(step, train=step["seconds"] - step["rollout"] - step["reward"]) for step in result["steps"]]
    return dict(medians(steps), **told(result["logs"]), count=len(steps), all=sum(step["seconds"] for step in steps), peak_mb=run.peak_mb,
                start=result["first"] - run.began)


def of_example(name):
    """That option's value in grpo.yaml."""
    return re.search(rf"(?m)^{name}: *(\S+)", (EXAMPLE / "grpo.yaml").read_text(encoding="utf-8")).group(1)


def success(o, adapter, folder):
    """Of the held-out questions, answered with that adapter: the evaluation before a step that changes nothing."""
    Run([*words_of(dict(o, adapter=adapter, learning_rate=0, warmup=0, steps=1, batch=o["group"]), folder), "--eval_dataset", o["held_out"],
         "--eval_on_start", "true", "--num_generations_eval", 1, "--per_device_eval_batch_size", 100], o["threads"])
    logs = [json.loads(line) for line in pathlib.Path(folder, "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return next(entry["eval_rewards/used_calculator/mean"] for entry in logs if "eval_reward" in entry)


def learn(a, o, temporary):
    """The lines of --learn."""
    o = dict(o, rewards=str(EXAMPLE), reward=("reward", "used_calculator"), learning_rate=float(of_example("learning_rate")),
             warmup=int(of_example("warmup_steps")), steps=2 if a.quick else int(of_example("max_steps")))
    if not a.quick:
        o.update(batch=int(of_example("per_device_train_batch_size")))
    ours = hone(o, f"{temporary}/hone_learned")
    theirs = trl(dict(o, seconds=ours["all"]), f"{temporary}/trl_learned")
    rows = [["stage 1, which both go on with", "", "", success(o, o["adapter"], f"{temporary}/answers")]]
    rows += [[who, one["count"], f"{one['all']:.0f}", success(o, f"{temporary}/{who.lower()}_learned", f"{temporary}/{who}_answers")]
             for who, one in (("hone", ours), ("TRL", theirs))]
    return ["## Learned in the same seconds", "",
            *table(["", "steps", "seconds in steps", "held-out success"], [[*row[:3], f"{100 * row[3]:.1f} %"] for row in rows]), "",
            f"Each trains with the reward, rate and batch of examples/calculator/grpo.yaml for {o['steps']} steps or the seconds of hone's. One "
            "completion of each held-out question, at temperature 1, drawn by hone for all three.", ""]


def stage_1(a, temporary):
    """The adapter that both go on with."""
    subprocess.run([str(word) for word in (build("hone"), "sft", "--config", EXAMPLE / "sft.yaml", "--model_name_or_path", a.model, "--dataset_name",
                                           f"{temporary}/data/dialogues.jsonl", "--output_dir", f"{temporary}/sft", "--skip_doctor", "true")],
                   check=True, cwd=SOURCE, stdout=subprocess.DEVNULL)
    return f"{temporary}/sft"


def options(a, temporary):
    subprocess.run([sys.executable, EXAMPLE / "make_data.py", f"{temporary}/data"], check=True, stdout=subprocess.DEVNULL)
    adapter = a.adapter or stage_1(a, temporary)
    pathlib.Path(temporary, "letters_reward.py").write_text(REWARD, encoding="utf-8")
    return dict(model=str(pathlib.Path(a.model).resolve()), adapter=str(pathlib.Path(adapter).resolve()), group=a.group,
                batch=a.questions * a.group, completion=a.completion, steps=a.steps, threads=a.threads, learning_rate=LEARNING_RATE, warmup=0,
                seconds=0, template=str(EXAMPLE / "tools.jinja"), data=f"{temporary}/data/train.jsonl", held_out=f"{temporary}/data/test.jsonl",
                rewards=temporary, reward=("letters_reward", "letters"), python=str(SOURCE / "python"))


def report(a, results, lines_of_setting, learned=()):
    head = ["pair", "who", "step s", "rollout s", "reward s", "train s", "tokens", "calls", "failed", "MB", "start s", "ratio", "memory"]
    body = []
    for pair, (ours, theirs) in enumerate(results, 1):
        for who, one in (("hone", ours), ("TRL", theirs)):
            body.append([pair, who, *(f"{one[part]:.2f}" for part in ("seconds", "rollout", "reward", "train")), f"{one['tokens']:.1f}",
                         f"{one['calls']:.2f}", f"{one['failed']:.2f}", f"{one['peak_mb']:.0f}", f"{one['start']:.1f}",
                         *([f"{theirs['seconds'] / ours['seconds']:.2f}", f"{theirs['peak_mb'] / ours['peak_mb']:.2f}"] if who == "hone" else ["", ""])])
    median = lambda name, side: statistics.median(pair[side][name] for pair in results)
    lengths = median("tokens", 0), median("tokens", 1)
    unequal = [f"**The work was not equal**: a completion had {lengths[0]:.1f} tokens in hone and {lengths[1]:.1f} in TRL.", ""]
    return "\n".join([
        f"# GRPO with a tool (examples/calculator), LoRA r 16 all-linear, bf16, {a.questions} questions x {a.group} completions, {a.threads} threads: "
        "hone beside TRL", "",
        f"model {pathlib.Path(a.model).name} with the adapter of stage 1 on both sides; at most {a.completion} tokens a completion, 2 rounds of calls, "
        f"beta 0, learning rate {LEARNING_RATE:g}; no gradient checkpointing, recompute none; one Python reward for both; file cache warm.", "",
        *lines_of_setting, "", f"{a.pairs} pairs in turn, {a.steps} steps each, the first left out: median of the rest; means of tokens and calls.", "",
        *table(head, body), "", *(unequal if abs(lengths[0] / lengths[1] - 1) > 0.1 else []),
        f"Medians: step {median('seconds', 0):.2f} s in hone, {median('seconds', 1):.2f} s in TRL, "
        f"ratio {statistics.median(t['seconds'] / h['seconds'] for h, t in results):.2f}; peak memory {median('peak_mb', 0):.0f} and "
        f"{median('peak_mb', 1):.0f} MB, ratio {statistics.median(t['peak_mb'] / h['peak_mb'] for h, t in results):.2f}.", "",
        "Tokens: `completions/mean_length` of both, what the model drew in a completion. Calls: `tools/call_frequency`; failed: "
        "`tools/failure_frequency`. MB: VmHWM of the main process. Rows whose advantage was 0, which hone does not train on: "
        f"{sum(ours['skipped'] for ours, _ in results):.0f} of {a.pairs * a.steps * a.questions * a.group}.", "",
        f"`bench/tools_beside_trl.py --model {pathlib.Path(a.model).name} --questions {a.questions} --group {a.group} --completion {a.completion} "
        f"--steps {a.steps} --pairs {a.pairs} --threads {a.threads}{' --learn' if a.learn else ''}`", "", *learned])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder in Hugging Face format, which both read")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--adapter")
    for name, default in dict(questions=4, group=8, completion=96, pairs=2, steps=4, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--learn", action="store_true", help="also success after the same seconds, 8 minutes more")
    parser.add_argument("--quick", action="store_true", help="one pair of two small steps: does it run?")
    a = parser.parse_args()
    if a.quick:
        a.pairs, a.steps, a.questions, a.group = 1, 2, 1, 4
    if a.steps < 2:
        parser.error("--steps: the first is left out, so at least 2")
    with tempfile.TemporaryDirectory() as temporary:
        lines_of_setting, o, results = setting(a.threads, ("torch", "trl", "peft", "transformers")), options(a, temporary), []
        for pair in range(1, a.pairs + 1):
            ours, theirs = hone(o, f"{temporary}/hone{pair}"), trl(o, f"{temporary}/trl{pair}")
            results.append((ours, theirs))
            print(f"pair {pair}: " + "; ".join(f"{who} {one['seconds']:.2f} s (rollout {one['rollout']:.2f}, train {one['train']:.2f}), "
                                               f"{one['tokens']:.1f} tokens, {one['peak_mb']:.0f} MB" for who, one in (("hone", ours), ("TRL", theirs)))
                  + f"; ratio {theirs['seconds'] / ours['seconds']:.2f}", flush=True)
            a.out.write_text(report(a, results, lines_of_setting), encoding="utf-8")  # what there is, should the next pair fail
        if a.learn:
            a.out.write_text(report(a, results, lines_of_setting, learn(a, o, temporary)), encoding="utf-8")
    print(a.out)


if __name__ == "__main__":
    main()
