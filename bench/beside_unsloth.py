#!/usr/bin/env python3
"""SFT with LoRA in hone, in TRL and PEFT, and in Unsloth's CPU backend, in turn, on the same model folder and rows: seconds a step,
tokens a second, the first step apart, seconds from the start to step 1, and peak memory of the whole process tree.

usage: bench/beside_unsloth.py --model FOLDER --out bench/results/NAME.md [--rounds 3] [--steps 4] [--level avx2|avx512|avx512_bf16|amx]
                               [--sides hone,TRL,Unsloth,Unsloth-compiled,Unsloth-recompute] [--kept FILE.json] [--quick]
--level: the instructions that every program is held to. Without products of bf16 in them, TRL and Unsloth compute in float32.
--kept: the rounds of earlier calls are read from that file and counted too, for a machine that is idle for minutes only; with
--rounds 0 they are only reported. What torch.compile made lies beside it: the first round compiles, later ones read that.
All must have the same loss at step 1: same rows, no dropout, and LoRA begins as zero. Otherwise there is no result.
Needs build/hone, tests/parity/setup's environment, and Unsloth's, which is made so:
    python3 -m venv third_party/unsloth-venv && third_party/unsloth-venv/bin/pip install -r bench/requirements-unsloth.txt
"""
import argparse
import json
import pathlib
import statistics
import tempfile

import beside_trl
from setting import LEVELS, SOURCE, Run, setting, table, versions, warm

PYTHON = SOURCE / "third_party/unsloth-venv/bin/python"
EXPECTED = 0.02  # losses of bf16 and float32 at step 1 differ by less

UNSLOTH = r'''
import json, sys, time
from unsloth import FastLanguageModel
import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer
o = json.loads(sys.argv[1]); torch.set_num_threads(o["threads"])
seconds, first = [], []
class Clock(TrainerCallback):
    def on_step_begin(self, *_, **__): first.append(time.time()); self.started = time.perf_counter()
    def on_step_end(self, *_, **__): seconds.append(time.perf_counter() - self.started)
recompute = "unsloth" if o["checkpointing"] else False
model, tokenizer = FastLanguageModel.from_pretrained(o["model"], max_seq_length=o["length"], load_in_4bit=False, use_gradient_checkpointing=recompute)
model = FastLanguageModel.get_peft_model(model, r=16, lora_alpha=32, lora_dropout=0, use_gradient_checkpointing=recompute,
                                         target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
args = SFTConfig(output_dir=o["out"], max_steps=o["steps"], bf16=True, gradient_checkpointing=o["checkpointing"], logging_steps=1,
                 save_strategy="no", learning_rate=1e-4, disable_tqdm=True, report_to="none", per_device_train_batch_size=o["batch"],
                 max_length=o["length"])
trainer = SFTTrainer(model, processing_class=tokenizer, args=args, callbacks=[Clock()],
                     train_dataset=Dataset.from_list([json.loads(line) for line in open(o["data"])]))
trainer.train()
history = trainer.state.log_history
counts = [entry["num_tokens"] for entry in history if "num_tokens" in entry]
trained = [p for p in model.parameters() if p.requires_grad]
print("RESULT", json.dumps({"seconds": seconds, "tokens": [b - a for a, b in zip([0] + counts, counts)], "first": first[0],
                            "losses": [entry["loss"] for entry in history if "loss" in entry], "trained": sum(p.numel() for p in trained),
                            "dtype": str(model.get_input_embeddings().weight.dtype), "optimizer": str(args.optim), "autocast": args.bf16}), flush=True)
'''

SIDES = {"hone": {}, "TRL": {}, "Unsloth": {}, "Unsloth-compiled": {"compiled": True}, "Unsloth-recompute": {"checkpointing": True}}


def unsloth(o, folder):
    warm(o["model"])
    more = {"UNSLOTH_DISABLE_STATISTICS": "1", "UNSLOTH_CPU_COMPILE": str(int(o.get("compiled", False))), "TORCHINDUCTOR_CACHE_DIR": o["cache"]}
    if o.get("float32"):  # Unsloth reads the processor's flags, not what the program is held to
        more["UNSLOTH_CPU_BF16"] = "0"
    run = Run([PYTHON, "-W", "ignore", "-c", UNSLOTH, json.dumps(dict(o, out=folder))], o["threads"], o.get("level"), more)
    result, expected = run.result(), o["batch"] * o["length"]
    if any(count != expected for count in result["tokens"]):
        raise SystemExit(f"Unsloth's steps have {result['tokens']} tokens, not {expected}")
    if o.get("compiled") and not any("torch.compile (Inductor C++)" in text for _, text in run.lines):
        raise SystemExit("Unsloth did not compile:\n" + "\n".join(text for _, text in run.lines if text.startswith("Unsloth")))
    return {"seconds": statistics.median(result["seconds"][1:]), "first_step": result["seconds"][0], "peak_mb": run.peak_mb, "tree_mb": run.tree_mb,
            "start": result["first"] - run.began, "losses": result["losses"],
            "said": f"weights {result['dtype']}, autocast to bf16 {result['autocast']}, {result['optimizer']}, {result['trained']} trained parameters"}


def measure(a, temporary, rounds):
    data = f"{temporary}/train.jsonl"
    beside_trl.rows(data, a.length)
    float32 = a.level in ("avx2", "avx512")
    common = dict(model=a.model, data=data, batch=a.batch, length=a.length, steps=a.steps, threads=a.threads, level=a.level,
                  checkpointing=False, recompute="none", layer_form="auto", cache=f"{a.kept or temporary + '/kept'}.inductor")
    for number in range(a.rounds):
        one = {}
        rounds.append(one)
        for side in a.sides:
            run = {"hone": beside_trl.hone, "TRL": beside_trl.trl}.get(side, unsloth)
            o = dict(common, float32=float32 and side != "hone", float32_weights=float32 and side != "hone", **SIDES[side])
            one[side] = run(o, f"{temporary}/{side}{number}")
            print(f"round {number + 1}, {side}: {one[side]['seconds']:.2f} s, first {one[side]['first_step']:.1f} s, start {one[side]['start']:.1f} s, "
                  f"{one[side]['tree_mb']:.0f} MB, losses {one[side]['losses']}", flush=True)
            if a.kept:
                a.kept.write_text(json.dumps({"said": a.said, "of": settings(a), "rounds": rounds}), encoding="utf-8")


def settings(a):
    """What rounds of one table have in common."""
    return [str(a.model), a.level, a.batch, a.length, a.steps, a.threads, a.said[0]]


def check(rounds):
    """The spread of all losses at step 1."""
    losses = [one["losses"][0] for each in rounds for one in each.values()]
    if max(losses) - min(losses) > EXPECTED:
        raise SystemExit(f"step 1 has losses from {min(losses)} to {max(losses)}: the programs do not train the same")
    return max(losses) - min(losses)


def report(a, rounds):
    spread, tokens = check(rounds), a.batch * a.length
    held = f", all held to {a.level}" if a.level else ""
    lines = [f"# SFT + LoRA r 16 all-linear, batch {a.batch} x {a.length}, {a.threads} threads{held}: hone, TRL, Unsloth's CPU backend", "",
             f"model {pathlib.Path(a.model).name}; dropout 0, learning rate 1e-4, AdamW; everything kept (hone: `recompute: none`; no checkpointing in TRL "
             f"and Unsloth, but in Unsloth-recompute). {len(rounds)} rounds, in each of which the programs of --sides run once, {a.steps} steps each; file cache warm.",
             "", *a.said, ""]
    sides, body = [side for side in SIDES if any(side in one for one in rounds)], []
    for side in sides:
        runs = [one[side] for one in rounds if side in one]
        seconds = statistics.median(one["seconds"] for one in runs)
        # Within a round: only what met the same minutes is compared.
        ratios = [one[side]["seconds"] / one["hone"]["seconds"] for one in rounds if side in one and "hone" in one]
        body.append([side, f"{seconds:.2f}", " ".join(f"{one['seconds']:.2f}" for one in runs), f"{tokens / seconds:.0f}",
                     f"{statistics.median(ratios):.2f}" if ratios else "", " ".join(f"{one['first_step']:.1f}" for one in runs),
                     " ".join(f"{one['start']:.1f}" for one in runs), f"{max(one['tree_mb'] for one in runs):.0f}",
                     f"{max(one['peak_mb'] for one in runs):.0f}"])
    head = ["who", "s a step", "each round", "tokens/s", "times hone's seconds", "first step s", "start s", "MB, whole tree", "MB, main process"]
    lines += table(head, body) + ["", f"The same is trained: at step 1 all losses lie within {spread:.4f}. Losses of the last round:", ""]
    lines += [f"- {side}: {', '.join(f'{loss:.4f}' for loss in rounds[-1][side]['losses'])}" for side in sides if side in rounds[-1]]
    lines += ["", *(f"- {side}: {next(one[side]['said'] for one in rounds if side in one)}" for side in sides if side.startswith("Unsloth")), "",
              "A step is the median of a run's steps without the first, in the table the median of rounds. LoRA's first factor is drawn by each program's own "
              "seed, so losses part after step 1. Start: from the program's start to the beginning of step 1, in hone with the examination, part of "
              "which later rounds do not repeat. The first step and the start are given for each round. Memory: the most of what the process and its "
              "children hold, looked at five times a second; VmHWM of the main process; of both the largest round.", "",
              f"`bench/beside_unsloth.py --model {pathlib.Path(a.model).name} --rounds {len(rounds)} --steps {a.steps} --sides {','.join(sides)}"
              f"{' --level ' + a.level if a.level else ''}`", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--sides", type=lambda text: text.split(","), default=["hone", "TRL", "Unsloth", "Unsloth-compiled"])
    parser.add_argument("--level", choices=list(LEVELS))
    parser.add_argument("--kept", type=pathlib.Path)
    for name, default in dict(rounds=3, batch=4, length=256, steps=4, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--quick", action="store_true", help="one round of small steps: does it run?")
    a = parser.parse_args()
    if set(a.sides) - set(SIDES):
        parser.error(f"--sides: of {','.join(SIDES)}")
    if a.quick:
        a.rounds, a.batch, a.length, a.steps = 1, 2, 32, 3
    if a.steps < 2:
        parser.error("--steps: the first is left out, so at least 2")
    if any(side.startswith("Unsloth") for side in a.sides) and not PYTHON.exists():
        parser.error(f"no {PYTHON.relative_to(SOURCE)}: the first lines of this file say how it is made")
    a.said = setting(a.threads, ("torch", "trl", "peft", "transformers"))
    a.said.append("- Unsloth's environment: " + versions(("unsloth", "unsloth_zoo", "torch", "trl", "peft", "transformers"), PYTHON)
                  + "; `bf16=True`, UNSLOTH_DISABLE_STATISTICS=1, UNSLOTH_CPU_COMPILE=1 where compiled")
    rounds = []
    if a.kept and a.kept.exists():
        found = json.loads(a.kept.read_text(encoding="utf-8"))
        if found["of"] != settings(a):
            parser.error(f"--kept: {a.kept} has rounds of {found['of']}, and these would be of {settings(a)}: take another file")
        a.said, rounds = found["said"], found["rounds"]
    with tempfile.TemporaryDirectory() as temporary:
        measure(a, temporary, rounds)
    a.out.write_text(report(a, rounds), encoding="utf-8")
    print(a.out)


if __name__ == "__main__":
    main()
