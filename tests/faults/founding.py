"""The founding cases: the runs whose reports hone began with, in their own configuration (TRL#3150, #2671, #2931, #2906, PEFT#2125).

Fast: the options as they are, Qwen2 shapes shrunk to the fixture. Slow: on Qwen2.5-0.5B's shapes (models/q05b, random weights).
A run that trains must move every tensor of the adapter; a run that is stopped must be stopped before step 1, by its code. What TRL 1.16
does on the same case stands beside it: [measured] by measure_trl.py on the same tiny model and rows, [run] on another tiny model when its
behavior was studied, [read] in its source and in the reports.
"""
import dataclasses
import pathlib
import tempfile
import typing

import scene
from fault import Outcome
import staging

HERE = pathlib.Path(__file__).resolve().parent
BIG = scene.SOURCE / "models" / "q05b"
REWARDS = '''"""The rewards of TRL#2931: one for the form, one for the answer."""


def text(completion):
    return completion[0]["content"] if isinstance(completion, list) else completion


def format_reward(completions, **_):
    return [0.5 if text(c).strip().isdigit() else 0.0 for c in completions]


def correctness_reward(completions, answer, **_):
    return [2.0 if text(c).strip() == a else 0.0 for c, a in zip(completions, answer)]


def any_difference(completions, **_):
    return [sum(map(ord, text(c))) % 7 / 7 for c in completions]
'''
# What the reports set. A rank and targets, where the report names none, as TRL's own examples have them.
LORA = {"use_peft": True, "lora_r": 16, "lora_target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}
F0 = {**LORA, "bf16": True, "gradient_checkpointing": True, "per_device_train_batch_size": 16, "num_generations": 8}
F1 = {**F0, "gradient_checkpointing_kwargs": {"use_reentrant": True}}
F1_ONLINE = {**{k: v for k, v in F1.items() if k != "num_generations"}, "reward_funcs": ["rewards.py:any_difference"]}
F2 = {**LORA, "bf16": True, "loss_type": "grpo", "per_device_train_batch_size": 8, "num_generations": 8,
      "reward_funcs": ["rewards.py:format_reward", "rewards.py:correctness_reward"]}
F3 = {**LORA, "bf16": True, "gradient_accumulation_steps": 4, "learning_rate": 5e-6, "warmup_ratio": 0.1,
      "lr_scheduler_type": "cosine", "max_grad_norm": 0.1, "per_device_train_batch_size": 8, "num_generations": 8}
F4 = {"use_peft": True, "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "use_bnb_nested_quant": True, "lora_r": 8, "lora_alpha": 16,
      "lora_dropout": 0.1, "lora_target_modules": "all-linear", "bf16": True, "gradient_checkpointing": True, "learning_rate": 2e-4,
      "per_device_train_batch_size": 8, "max_length": 2048}
F3_NOW = {**{k: v for k, v in F3.items() if k != "warmup_ratio"}, "warmup_steps": 0.1}


@dataclasses.dataclass
class Case:
    name: str
    configuration: str
    options: dict
    trl: str
    trains: bool = True
    code: str = ""  # that stops it, or must be told while it trains
    broken: str = ""  # HONE_BREAK
    slow: bool = False
    says: str = ""  # beside the code: words of the error
    build: typing.Callable = None
    method: str = "grpo"
    proves: tuple = ()  # codes that `hone doctor` must find in order


CASES = []


def case(*args, **kwargs):
    CASES.append(Case(*args, **kwargs))


TRL_F0 = "trains, 28 of 28 adapter tensors moved: it has enable_input_require_grads and non-reentrant checkpointing as defaults [measured]"
TRL_F1 = "trains, 28 of 28 moved, no warning: passes without gradient switch checkpointing off [measured]; a model with frozen adapters trains to the end with grad_norm 0 and no word [run]"
TRL_F1_ONLINE = "trains, 28 of 28 moved, no warning: it drops the kwargs when it switches checkpointing on [measured]; objective/entropy counts padding"
TRL_F2 = "trains, prints loss 0.0 with grad_norm 1.3 to 2.3 and no word on it [measured]; the same 0.0 where all rewards are equal [run]"
TRL_F3 = "TypeError: unexpected keyword argument 'warmup_ratio' [measured]"
TRL_F3_NOW = "trains, 28 of 28 moved [measured]"
TRL_F4 = ("refuses a PeftModel beside peft_config; of a base that get_peft_model changed it re-initializes the adapter with a warning; "
          "prepare_model_for_kbit_training on a model that has its adapters freezes them [run]")
TRL_GEMM = "no check of the GEMM library: the exit code -8 alone [read]"

case("F0", "GRPO, Qwen2 shapes, bf16, gradient checkpointing, batch 16, 8 generations (TRL#3150)", F0, TRL_F0)
case("F1", "GRPO with reentrant checkpointing requested (TRL#2671)", F1, TRL_F1)
case("F1, Online DPO", "Online DPO with reentrant checkpointing requested (TRL#2671)", F1_ONLINE, TRL_F1_ONLINE, method="online-dpo")
case("F2", "GRPO, format and correctness rewards, loss 0 (TRL#2931)", F2, TRL_F2, code="RL-01")
case("F3", "accumulation 4, learning_rate 5e-6, warmup_ratio 0.1, cosine, max_grad_norm 0.1, bf16 (TRL#2906)", F3, TRL_F3)
case("F3, warmup_steps 0.1", "the same with the name that transformers 5 has", F3_NOW, TRL_F3_NOW)
case("F3, a GEMM that raises SIGFPE", "the same on a machine whose bf16 product dies", F3_NOW, TRL_GEMM, trains=False,
     code="NUM-07", broken="gemm-bf16:SIGFPE")
case("F4", "4-bit SFT, adapters attached before the k-bit preparation (PEFT#2125)", F4, TRL_F4, method="sft", proves=("GRAD-04", "NUM-06"))
case("F0, real shapes", "the same on Qwen2.5-0.5B's shapes", F0, "not measured at this size", slow=True)
case("F1, real shapes", "the same on Qwen2.5-0.5B's shapes", F1, "not measured at this size", slow=True)
case("F2, real shapes", "the same on Qwen2.5-0.5B's shapes", F2, "not measured at this size", slow=True)
case("F3, real shapes", "the same on Qwen2.5-0.5B's shapes", F3_NOW, "not measured at this size", slow=True)

NOT_RUN = []


def row_of(one, words):
    return ("founding", f"{one.name}: {one.configuration}", f"{words}. TRL 1.16: {one.trl}")


def stage_sft(one, place):
    base = {k: v for k, v in scene.SFT.items() if k in ("use_peft", "dataset_name", "output_dir", "report_to", "threads")}
    place.rows(scene.text_rows(90))
    place.write("sft", {**base, "logging_steps": 1, "save_strategy": "no", "num_train_epochs": 1}, one.options)


def stage(one, place):
    if one.method == "sft":
        stage_sft(one, place)
        return
    place.python(REWARDS)
    base = {k: v for k, v in scene.POLICY.items() if k not in scene.SFT or k in ("use_peft", "dataset_name", "output_dir", "report_to")}
    base = {**base, "max_completion_length": 12, "logging_steps": 1, "save_strategy": "no", "num_train_epochs": 1}
    if one.slow:
        base = {**base, "model_name_or_path": str(BIG), "max_completion_length": 32, "max_steps": 3,
                "reward_funcs": ["rewards.py:any_difference"]}
    options = {**one.options}
    if one.slow and "reward_funcs" in options:
        options["reward_funcs"] = [*options["reward_funcs"], "rewards.py:any_difference"]
    place.rows(scene.prompt_rows(90))
    if one.method == "online-dpo":
        base = {{"max_completion_length": "max_new_tokens"}.get(k, k): v for k, v in base.items() if k != "num_generations"}
    place.write(one.method, base, options)


def moved_tensors(before, after):
    """(tensors whose bytes differ, all)"""
    first, second = staging.read_safetensors(before), staging.read_safetensors(after)
    names = [n for n in first[0] if n != "__metadata__"]

    def raw(read, name):
        return read[1][slice(*read[0][name]["data_offsets"])]
    return sum(raw(first, n) != raw(second, n) for n in names), len(names)


def train(one, runner, place):
    """(what it did, problems)"""
    code, _, said = runner.run(("train", "--learning_rate", "0", "--max_steps", "1", "--skip_doctor", "--output_dir", "start"),
                               place.folder, place.method)
    if code != 0:
        return "", f"the start: {said}"
    code, verdicts, said = runner.run(("train",), place.folder, place.method)
    failing = [v for v in verdicts if v.level == "fail"]
    if code != 0 or failing:
        return "", said
    moved, count = moved_tensors(place.path("start/adapter_model.safetensors"), place.path("out/adapter_model.safetensors"))
    if moved != count:
        return "", f"{moved} of {count} tensors moved\n{said}"
    words = f"trains to the end, {moved} of {count} adapter tensors moved"
    if one.code:
        if not any(v.code == one.code for v in verdicts):
            return "", f"{one.code} was not told\n{said}"
        words += f"; {one.code} told as healthy"
    if one.proves:
        code, verdicts, said = runner.run(("doctor", "--output_dir", "examined"), place.folder, place.method)
        absent = [c for c in one.proves if not any(v.code == c and v.level == "ok" for v in verdicts)]
        if code != 0 or absent:
            return "", f"not proved: {absent}\n{said}"
        words += f"; the doctor's {' and '.join(one.proves)} are ok"
    return words, ""


def run(one, runner):
    name = f"founding {one.name}"
    if one.slow and not BIG.exists():
        return Outcome(True, f"{name} # skip: {BIG.name} is not there")
    with tempfile.TemporaryDirectory(prefix="hone-founding-") as folder:
        place = scene.Scene(folder, "qwen2")
        stage(one, place)
        if one.trains:
            words, problem = train(one, runner, place)
        else:
            code, verdicts, said = runner.run(("train",), place.folder, place.method, one.broken)
            named = [v for v in verdicts if v.code == one.code and v.level == "fail"] if one.code else []
            told = bool(named) and one.says in said
            stopped = code == 2 and not place.path("out/adapter_model.safetensors").exists()
            problem = "" if told and stopped else said
            words = f"stopped before step 1: {one.code}" + (", former name, write warmup_steps: 0.1" if one.says else "")
    row = row_of(one, words if not problem else "fails")
    return Outcome(not problem, name, row, problem)


def rows(done):
    """Of the cases that were not run (slow ones) what the file has."""
    path = HERE / "shown.tsv"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    now = {row[1]: row for row in done}
    had = {row[1]: row for row in (tuple(line.split("\t")) for line in lines) if row[0] == "founding"}
    wanted = [row_of(one, "not run yet") for one in CASES]
    return [now.get(row[1], had.get(row[1], row)) for row in wanted] + [
        ("founding", f"{name}: {configuration}", f"{words}. TRL 1.16: {trl}") for name, configuration, words, trl in NOT_RUN]
