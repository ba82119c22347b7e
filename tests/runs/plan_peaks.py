#!/usr/bin/env python3
"""The memory that a run plans before step 1 and the peak that it has then, in every family: within 3 % of each other.

Under `ulimit -d` the plan is an upper bound.

SFT with LoRA on all linears at each recompute level in models of equal shapes with random weights (bench/families.py), 1 GB or more
each, and in some families other methods and forms. The program, its libraries and its data are a fixed part of a plan: measured
before the model is read, with 40 MiB for what only training touches and 32 MiB that tensors' memory may keep. Here it is some 0.22 GB.
A peak is never more than 1 % above its plan.

Prints `ok NAME` or `not ok NAME` a run, and writes a table with --table FILE. usage: plan_peaks.py [--only WORD] [--models FOLDER]
[--table FILE] [--hone PROGRAM]. Needs the environment of tests/parity/setup, which makes the models; with --models they are kept.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "bench"))
import beside_trl  # noqa: E402
import families  # noqa: E402
from setting import PYTHON, environment_of, table  # noqa: E402

LAYERS, LENGTH = 6, 512
LEAST, MOST = 0.97, 1.01  # peak / plan
LEAST_OF_HEAP = 0.85  # where the plan has holes of the heap, a tenth: an upper bound
LEVELS = {"none": 8, "cheap": 10, "layer": 20}  # rows of a batch, so that a run needs 1 GB or more
PEFT = {"use_peft": "true", "lora_r": 16, "lora_alpha": 32, "lora_dropout": 0, "lora_target_modules": "all-linear"}
PAIRS = {"max_length": LENGTH, "per_device_train_batch_size": 4}
SOME = {"lora_target_modules": ["q_proj", "v_proj"]}
SAMPLED = {"reward_funcs": 'regex(pattern="[a-m][^a-z]*$")', "num_generations": 8, "max_completion_length": 448, "max_prompt_length": 64,
           "per_device_train_batch_size": 8, "min_new_tokens": 448, "temperature": 1.0}
# name: method, data, families, options. They go over SFT's with LoRA at the level none.
OTHERS = {
    "full fine-tuning": ("sft", "texts", ("llama", "gemma3_text"), {"use_peft": "false", "learning_rate": 1e-5}),
    "4 bits": ("sft", "texts", ("llama", "qwen3_moe"), {"load_in_4bit": "true"}),
    "float32": ("sft", "texts", ("llama",), {"bf16": "false", "dtype": "float32", "per_device_train_batch_size": 6}),
    "dropout": ("sft", "texts", ("llama",), {"lora_dropout": 0.1}),
    "dora": ("sft", "texts", ("llama",), {"use_dora": "true"}),
    "dora, layer": ("sft", "texts", ("llama",), {"use_dora": "true", "recompute": "layer", "per_device_train_batch_size": 20}),
    "dora, plain form": ("sft", "texts", ("llama",), {"use_dora": "true", "layer_form": "plain", "per_device_train_batch_size": 5}),
    "q_proj and v_proj": ("sft", "texts", ("llama",), SOME),
    "q_proj and v_proj, layer": ("sft", "texts", ("llama",), {**SOME, "recompute": "layer", "per_device_train_batch_size": 20}),
    "varied lengths, 25 steps": ("sft", "varied", ("llama",), {"max_steps": 25}),
    "under ulimit -d": ("sft", "texts", ("llama",), {"limit": 1 << 40}),
    "under ulimit -d, layer": ("sft", "texts", ("llama",), {"limit": 1 << 40, "recompute": "layer", "per_device_train_batch_size": 20}),
    "plain form": ("sft", "texts", ("llama",), {"layer_form": "plain", "per_device_train_batch_size": 6}),
    "accumulation": ("sft", "texts", ("llama",), {"gradient_accumulation_steps": 2}),
    "dpo": ("dpo", "pairs", ("llama", "qwen3_5_text"), PAIRS),
    "grpo": ("grpo", "prompts", ("llama", "lfm2"), SAMPLED),
}


class Runs:
    def __init__(self, hone, folder, models):
        self.hone, self.folder, self.models = hone, folder, models
        self.data = {name: folder / f"{name}.jsonl" for name in ("texts", "varied", "pairs", "prompts")}
        beside_trl.rows(self.data["texts"], LENGTH)
        texts = [json.loads(line)["text"].split() for line in self.data["texts"].read_text().splitlines()]
        with self.data["varied"].open("w") as varied:
            for i in range(200):  # half of the length to all of it
                words = texts[i % len(texts)]
                varied.write(json.dumps({"text": " ".join(words[: len(words) * (50 + 37 * i % 51) // 100])}) + "\n")
        with self.data["pairs"].open("w") as pairs, self.data["prompts"].open("w") as prompts:
            for words in texts:
                pairs.write(json.dumps({"prompt": " ".join(words[:8]), "chosen": " ".join(words[8:]), "rejected": " ".join(words[9:])}) + "\n")
                prompts.write(json.dumps({"prompt": " ".join(words[:6])}) + "\n")

    def measured(self, family, method, data, more):
        """The plan's segments in GB by name, with their total, and the peak in GB."""
        output = self.folder / "run"
        options = {"model_name_or_path": self.models / family, "dataset_name": self.data[data], "output_dir": output, **PEFT,
                   "dtype": "bfloat16", "bf16": "true", "max_steps": 2, "max_length": LENGTH, "logging_steps": 1, "save_strategy": "no",
                   "report_to": "none", "report_page": "false", "threads": 2, "skip_doctor": "true", "overwrite_output_dir": "true",
                   "learning_rate": 1e-4, "recompute": "none", "per_device_train_batch_size": LEVELS["none"], **more}
        limit = options.pop("limit", None)
        if method == "grpo":
            del options["max_length"]
        if options["use_peft"] == "false":
            options = {name: value for name, value in options.items() if not name.startswith("lora_")}
        before = ["prlimit", f"--data={limit}", "--"] if limit else []
        words = [*before, str(self.hone), method]
        for name, value in options.items():
            words += [f"--{name}", *(value if isinstance(value, list) else [str(value)])]
        run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment_of(2), check=False)
        if run.returncode:
            return None, None, run.stdout[-2000:]
        plan = re.search(r"^memory    (\S.*?)^          total +\S+ GB", run.stdout, re.M | re.S)[0]
        segments = {name: float(size) for name, size in re.findall(r"^(?:memory|      )    (\S.*?) +(\d+\.\d+) GB", plan, re.M)}
        records = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        peak = max(one["performance"]["memory_peak"] for one in records if "performance" in one)
        return segments, peak / 1e9, run.stdout


def cases(names):
    for level, batch in LEVELS.items():
        for family in names:
            yield f"sft, {level}", family, ("sft", "texts", {"recompute": level, "per_device_train_batch_size": batch})
    for what, (method, data, some, more) in OTHERS.items():
        for family in some:
            yield what, family, (method, data, more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    parser.add_argument("--only", default="", help="a word of the runs' names")
    parser.add_argument("--models", type=pathlib.Path, help="a folder where they are, or are made and kept")
    parser.add_argument("--table", type=pathlib.Path)
    a = parser.parse_args()
    if not a.models and not PYTHON.exists():
        print("skip plan and peak (tests/parity/setup makes the environment that writes the models)")
        return 0
    passed, rows = True, []
    with tempfile.TemporaryDirectory() as temporary:
        models = (a.models or pathlib.Path(temporary) / "models").absolute()
        if not models.exists():
            families.make(models, LAYERS, "")
        runs = Runs(a.hone, pathlib.Path(temporary), models)
        for what, family, (method, data, more) in cases(sorted(one.name for one in models.iterdir())):
            name = f"{what}: {family}"
            if not re.search(a.only, name):
                continue
            segments, peak, said = runs.measured(family, method, data, more)
            if segments is None:
                passed = False
                print(f"not ok plan and peak, {name}: {said}", flush=True)
                continue
            ratio = peak / segments["total"]
            good = (LEAST_OF_HEAP if "limit" in more else LEAST) <= ratio <= MOST and peak >= 1
            passed &= good
            rows.append([what, family, f"{segments['total']:.2f}", f"{peak:.3f}", f"{ratio:.3f}"])
            print(f"{'ok' if good else 'not ok'} plan and peak, {name}: planned {segments['total']:.2f} GB, peak {peak:.3f} GB, {ratio:.3f}"
                  + ("" if good else f" of {segments}"), flush=True)
    if a.table:
        a.table.write_text("\n".join([*table(["run", "family", "planned GB", "peak GB", "peak / planned"], rows), ""]), encoding="utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
