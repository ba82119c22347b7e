#!/usr/bin/env python3
"""hone's command line and TRL in turn on this GPU: seconds a step, losses, memory. A line of JSON each, at once.

  beside.py HONE [--size 0.5B] [--runs sft grpo] [--sides hone trl] [--steps 8]

Both get one made model, one file of rows and one reward. The model has the shapes of Qwen2.5 and random numbers; its tokenizer reads
bytes. Needs torch with CUDA and transformers; TRL's side also needs trl, peft and datasets, and liger-kernel for its second SFT run.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

SHAPES = {"0.5B": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14),
          "1.5B": dict(hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12)}
SFT = {"batch": 8, "length": 1024}
GRPO = {"group": 8, "prompt": 64, "completion": 256}
WARM_UP = 2  # steps that the median leaves out
# By ids, since most of what a random model samples is no text. A completion practically never has the mean of its group.
REWARD = "def letters(completion_ids, **_):\n    return [sum(map(int, ids)) % 9973 / 9973 for ids in completion_ids]\n"
TRL_SIDES = {"sft": {"TRL, its defaults": {},
                     "TRL without checkpointing, Liger": {"gradient_checkpointing": False, "use_liger_kernel": True}},
             "grpo": {"TRL, its defaults": {}}}


def tell(**what):
    print(json.dumps(what), flush=True)


def make_tokenizer(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)} | {"<|end|>": 256}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words.decoder = decoders.ByteLevel()
    words.add_special_tokens(["<|end|>"])
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|end|>", pad_token="<|end|>").save_pretrained(folder)


def make_model(folder, size):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM
    make_tokenizer(folder)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Qwen2ForCausalLM(Qwen2Config(vocab_size=151936, max_position_embeddings=32768, rms_norm_eps=1e-6, bos_token_id=256,
                                             eos_token_id=256, tie_word_embeddings=True, num_key_value_heads=2, dtype="bfloat16",
                                             rope_parameters={"rope_type": "default", "rope_theta": 1e6}, **SHAPES[size]))
    model.to(torch.bfloat16).save_pretrained(folder)


def make_rows(folder):
    draw = random.Random(0)

    def text(length):
        return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz ,.") for _ in range(length))

    (folder / "sft.jsonl").write_text("".join(json.dumps({"text": text(SFT["length"] + 100)}) + "\n" for _ in range(256)))
    (folder / "grpo.jsonl").write_text("".join(json.dumps({"prompt": text(GRPO["prompt"])}) + "\n" for _ in range(64)))
    (folder / "letters_reward.py").write_text(REWARD)


def tell_steps(side, run, seconds, **more):
    """`seconds` are those of all steps; hone's begin with the second one."""
    tell(side=side, run=run, median=statistics.median(seconds[WARM_UP:]), seconds=[round(one, 4) for one in seconds], **more)


def hone_side(program, run, folder, steps):
    options = {"model_name_or_path": folder / "model", "dataset_name": folder / f"{run}.jsonl", "output_dir": folder / f"hone-{run}",
               "device": "cuda", "use_peft": "true", "lora_r": 16, "lora_alpha": 32, "lora_dropout": 0,
               "lora_target_modules": "all-linear", "bf16": "true", "dtype": "bfloat16", "learning_rate": 1e-5, "max_steps": steps,
               "logging_steps": 1, "save_strategy": "no", "report_to": "none", "overwrite_output_dir": "true"}
    if run == "sft":
        options |= {"per_device_train_batch_size": SFT["batch"], "max_length": SFT["length"]}
    else:
        options |= {"per_device_train_batch_size": GRPO["group"], "num_generations": GRPO["group"],
                    "max_completion_length": GRPO["completion"], "beta": 0, "python": sys.executable,
                    "generation_kwargs": json.dumps({"min_new_tokens": GRPO["completion"]}),
                    "reward_funcs": f"{folder}/letters_reward.py:letters"}
    words = [str(program), run] + [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = [(time.monotonic(), line.rstrip()) for line in started.stdout]
    ends = [(when, line) for when, line in lines if line.startswith("step ")]
    if started.wait() != 0 or len(ends) < WARM_UP + 2:
        tell(side="hone", run=run, failed=started.returncode, said=[line for _, line in lines[-25:]])
        return
    losses = [float(found.group(1)) for _, line in ends if (found := re.search(r"loss (\S+)", line))]
    tell_steps("hone", run, [after[0] - before[0] for before, after in zip(ends, ends[1:])], losses=losses, last=ends[-1][1],
               memory=[" ".join(line.split()) for _, line in lines if "total on the" in line or line.startswith("memory    peak")])


def trl_side(name, more, run, folder, steps):
    """In a process of its own, which is this file with --trl."""
    told = {"folder": str(folder), "run": run, "steps": steps, "more": more}
    done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--trl", json.dumps(told)], capture_output=True, text=True)
    result = re.search(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
    if not result:
        tell(side=name, run=run, failed=done.returncode, said=(done.stdout + done.stderr).splitlines()[-12:])
        return
    found = json.loads(result.group(1))
    tell_steps(name, run, found["seconds"], losses=found["losses"], reserved=found["reserved"])


def train_with_trl(folder, run, steps, more):
    import torch
    import trl
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import TrainerCallback
    sys.path.insert(0, folder)
    from letters_reward import letters
    seconds = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **__):
            torch.cuda.synchronize()
            self.started = time.perf_counter()

        def on_step_end(self, *_, **__):
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - self.started)

    common = dict(output_dir=os.path.join(folder, "trl"), max_steps=steps, bf16=True, logging_steps=1, save_strategy="no",
                  learning_rate=1e-5, disable_tqdm=True, report_to="none",
                  model_init_kwargs=dict(dtype="bfloat16", attn_implementation="sdpa"), **more)
    given = dict(train_dataset=Dataset.from_list([json.loads(line) for line in pathlib.Path(folder, f"{run}.jsonl").open()]),
                 peft_config=LoraConfig(r=16, lora_alpha=32, lora_dropout=0, target_modules="all-linear", task_type="CAUSAL_LM"),
                 callbacks=[Clock()])
    model = os.path.join(folder, "model")
    if run == "sft":
        args = trl.SFTConfig(per_device_train_batch_size=SFT["batch"], max_length=SFT["length"], **common)
        trainer = trl.SFTTrainer(model, args=args, **given)
    else:
        args = trl.GRPOConfig(per_device_train_batch_size=GRPO["group"], num_generations=GRPO["group"], beta=0.0,
                              max_completion_length=GRPO["completion"], generation_kwargs=dict(min_new_tokens=GRPO["completion"]), **common)
        trainer = trl.GRPOTrainer(model, reward_funcs=letters, args=args, **given)
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    print("RESULT", json.dumps({"seconds": seconds, "losses": losses, "reserved": torch.cuda.max_memory_reserved()}), flush=True)


def compare(asked):
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        sys.exit(f"not run: {error}")
    if not torch.cuda.is_available():
        sys.exit("not run: this torch sees no GPU")
    with tempfile.TemporaryDirectory(prefix="hone_beside_") as name:
        folder = pathlib.Path(name)
        begin = time.monotonic()
        make_model(folder / "model", asked.size)
        make_rows(folder)
        tell(card=torch.cuda.get_device_name(), torch=torch.__version__, made=asked.size, seconds=round(time.monotonic() - begin, 1),
             sft=SFT, grpo=GRPO)
        for run in asked.runs:
            if "hone" in asked.sides:
                hone_side(asked.hone, run, folder, asked.steps)
            if "trl" in asked.sides:
                for side, more in TRL_SIDES[run].items():
                    trl_side(side, more, run, folder, asked.steps)


def main():
    if sys.argv[1:2] == ["--trl"]:
        train_with_trl(**json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hone", type=pathlib.Path)
    parser.add_argument("--size", choices=SHAPES, default="0.5B")
    parser.add_argument("--runs", nargs="+", choices=["sft", "grpo"], default=["sft", "grpo"])
    parser.add_argument("--sides", nargs="+", choices=["hone", "trl"], default=["hone", "trl"])
    parser.add_argument("--steps", type=int, default=8)
    asked = parser.parse_args()
    if asked.steps < WARM_UP + 2:
        parser.error(f"--steps: at least {WARM_UP + 2}")
    compare(asked)


if __name__ == "__main__":
    main()
