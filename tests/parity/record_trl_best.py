"""Runs of TRL's SFTTrainer with several evaluations: which checkpoint is the best, which are left, and several evaluation
sets. FIXTURES/trl_best/<case>.json. usage: record_trl_best.py [--only PREFIX] [--out FOLDER]

Each JSON: versions; model, adapter, data; options (in TRL's names; both sides take these); eval_data: one file, or a
mapping of names; evals: as logged, with step; state: best_metric, best_global_step, best_model_checkpoint (its folder's
name) of trainer_state.json at the end; left: the checkpoints that are left; result: the steps of those whose adapter is
that of the finished run (0: the last step's, not saved)."""
import argparse
import json
import tempfile
from pathlib import Path

import common
from common import FIXTURES, adapter_parameters, versions, write_json

import torch
from datasets import Dataset, disable_progress_bars
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL, ADAPTER = FIXTURES / "tiny_llama", FIXTURES / "tiny_llama/adapter"
SHARED = dict(bf16=False, per_device_train_batch_size=2, learning_rate=1e-2, lr_scheduler_type="constant", max_steps=8,
              seed=42, max_length=64, eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2,
              per_device_eval_batch_size=4)
ONE = "eval_text.jsonl"
TWO = {"first": "eval_text.jsonl", "second": "text.jsonl"}
CASES = {  # name: (rows to evaluate, what differs from SHARED)
    "lowest": (ONE, dict(load_best_model_at_end=True)),
    "highest": (ONE, dict(load_best_model_at_end=True, greater_is_better=True, save_total_limit=2)),
    "only_the_best": (ONE, dict(load_best_model_at_end=True, greater_is_better=True, save_total_limit=1)),
    "not_loaded": (ONE, dict(metric_for_best_model="eval_loss", greater_is_better=True, save_total_limit=2)),
    "saved_when_best": (ONE, dict(load_best_model_at_end=True, save_strategy="best", metric_for_best_model="loss",
                                  greater_is_better=True)),
    "saved_less_often": (ONE, dict(load_best_model_at_end=True, save_steps=4, greater_is_better=True)),
    "two_sets": (TWO, dict(load_best_model_at_end=True, metric_for_best_model="eval_second_loss")),
    "plateau": (ONE, dict(lr_scheduler_type="reduce_lr_on_plateau", lr_scheduler_kwargs={"patience": 0, "mode": "max"},
                          metric_for_best_model="loss")),
}


def rows(name):
    return Dataset.from_list([json.loads(line) for line in (FIXTURES / "sft" / name).read_text().splitlines()])


def run(name, out):
    evaluated, extra = CASES[name]
    options = {**SHARED, **extra}
    tokenizer = AutoTokenizer.from_pretrained(str(MODEL))
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(str(MODEL), dtype=torch.float32), str(ADAPTER),
                                      is_trainable=True)
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(model, args=SFTConfig(output_dir=folder, use_cpu=True, report_to="none", logging_steps=1,
                                                   disable_tqdm=True, **options),
                             train_dataset=rows("text.jsonl"), processing_class=tokenizer,
                             eval_dataset=rows(evaluated) if isinstance(evaluated, str)
                             else {key: rows(value) for key, value in evaluated.items()})
        trainer.train()
        left = sorted((path.name for path in Path(folder).glob("checkpoint-*")), key=lambda one: int(one.split("-")[1]))
        final = {key: value.detach() for key, value in adapter_parameters(trainer.model).items()}
        result = []
        for one in left:
            saved = load_file(str(Path(folder) / one / "adapter_model.safetensors"))
            if all(torch.equal(saved[key], value) for key, value in final.items()):
                result.append(int(one.split("-")[1]))
        state = trainer.state
        best = {"best_metric": state.best_metric, "best_global_step": state.best_global_step,
                "best_model_checkpoint": state.best_model_checkpoint and Path(state.best_model_checkpoint).name}
    history = trainer.state.log_history
    evals = [{key: value for key, value in entry.items() if key.startswith("eval_") and "runtime" not in key
              and "per_second" not in key} | {"step": entry["step"]}
             for entry in history if any(key.endswith("_loss") and key.startswith("eval_") for key in entry)]
    rates = [entry["learning_rate"] for entry in history if "learning_rate" in entry]
    data = str(FIXTURES / "sft" / evaluated) if isinstance(evaluated, str) else {
        key: str(FIXTURES / "sft" / value) for key, value in evaluated.items()}
    write_json(out / "trl_best" / f"{name}.json",
               {"versions": versions(), "model": str(MODEL), "adapter": str(ADAPTER),
                "data": str(FIXTURES / "sft/text.jsonl"), "options": options, "eval_data": data, "evals": evals,
                "rates": rates, "state": best, "left": left, "result": result})
    print(f"{name}: {best}, left {left}, result {result}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FIXTURES)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    arguments = parser.parse_args()
    out = arguments.out if arguments.out == FIXTURES else arguments.out.resolve()
    common.enter(1)
    disable_progress_bars()
    for name in CASES:
        if name.startswith(arguments.only):
            run(name, out)


main()
