#!/usr/bin/env python3
"""What TRL 1.16 does on the founding cases, at the fixture's size: run by hand with tests/parity/setup's Python.

  third_party/parity-venv/bin/python tests/faults/measure_trl.py F0 F1 ...

Prints one line a case: whether it trains, which tensors moved, the losses and gradients that it logged, what it warned of. The words in
founding.py are written after it.
"""
import pathlib
import sys
import tempfile
import warnings

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import founding
import scene

CASES = {"F0": founding.F0, "F1": founding.F1, "F1-online": founding.F1_ONLINE, "F2": founding.F2, "F3": founding.F3, "F3-now": founding.F3_NOW}


def rewards(names):
    space = {}
    exec(founding.REWARDS, space)  # pylint: disable=exec-used
    return [space[name.split(":")[1]] for name in names]


def measure(name, steps=4):
    options = {k: v for k, v in CASES[name].items() if k not in founding.LORA}
    functions = rewards(options.pop("reward_funcs", ["x:format_reward", "x:correctness_reward"]))
    folder = scene.FIXTURES / "qwen2"
    with tempfile.TemporaryDirectory() as out:
        online = name == "F1-online"
        length = {"max_new_tokens" if online else "max_completion_length": 12}
        config_class, trainer_class = (OnlineDPOConfig, OnlineDPOTrainer) if online else (GRPOConfig, GRPOTrainer)
        config = config_class(output_dir=out, max_steps=steps, **length, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True,
                              disable_tqdm=True, **options)
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        trainer = trainer_class(model=model, reward_funcs=functions, args=config,
                                processing_class=AutoTokenizer.from_pretrained(folder),
                                train_dataset=Dataset.from_list(scene.prompt_rows(90)),
                                peft_config=LoraConfig(r=16, lora_alpha=32, task_type="CAUSAL_LM",
                                                       target_modules=list(founding.LORA["lora_target_modules"])))
        before = {n: p.detach().clone() for n, p in trainer.model.named_parameters() if p.requires_grad}
        trainer.train()
        moved = sum(not torch.equal(p, before[n]) for n, p in trainer.model.named_parameters() if n in before)
        log = [(round(r["loss"], 6), round(r["grad_norm"], 4)) for r in trainer.state.log_history if "loss" in r]
        return f"trains, {moved} of {len(before)} adapter tensors moved; (loss, grad_norm) {log}"


def main():
    for name in sys.argv[1:] or CASES:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                said = measure(name)
            except Exception as error:  # pylint: disable=broad-except
                said = f"{type(error).__name__}: {error}"
        reentrant = [str(w.message) for w in told if "requires_grad" in str(w.message)]
        print(f"{name}: {said}; warnings of gradients: {len(reentrant)} {reentrant[:1]}", flush=True)


if __name__ == "__main__":
    main()
