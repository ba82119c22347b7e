#!/usr/bin/env python3
"""TRL's own scripts (of its package, and examples/scripts of its repository), with hone.trl in the place of trl, and a small model and data;
and the objects of PEFT, datasets and transformers as arguments.

usage: tests/python/scripts_test.py [NAME...]     with the packages of third_party/parity-venv
"""
import argparse
import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from checks import MARKED, PAIRS, PARITY, PROMPTS, SOURCE, TEXTS, TINY, Skip, Tests, holds, same

PYTHON = SOURCE / "third_party/parity-venv/bin/python"
OBJECTS_FOLDER = SOURCE / "tests/python/objects"
REWARD_MODEL = str(PARITY / "rewards/tiny_reward")
SUMS = [{"problem": f"What is {n} + {n}?", "solution": f"$\\boxed{{{2 * n}}}$", "messages": [], "row": n} for n in range(4)]
PROMPTS = [{**row, "row": at} for at, row in enumerate(PROMPTS)]
CHATS = [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in PROMPTS]  # as TRL's format rewards want them
GROUPS = ("--num_generations", "2", "--max_completion_length", "8")


@dataclasses.dataclass
class Script:
    """One of TRL's: where it is, its data and options, and what beside its imports is another model or other data."""
    rows: list
    options: tuple = ()
    changes: dict = dataclasses.field(default_factory=dict)
    is_example: bool = False  # of the repository's examples/scripts, not of the package
    samples: bool = False     # what TRL samples, hone replays
    model: str = TINY
    rounding: float = 0.0     # of TRL's own log of the loss
    here: bool = True         # TRL runs it without a GPU, so that its losses can be compared
    fixed: str = ""           # it reads no command line: its output_dir

    def text(self, name):
        text = (examples() if self.is_example else package()).joinpath(f"{name}.py").read_text()
        for old, new in self.changes.items():
            same(text.count(old), 1, old)
            text = text.replace(old, new)
        return text


SCRIPTS = {
    "sft": Script(TEXTS),
    "dpo": Script(PAIRS),
    "kto": Script(MARKED),
    "reward": Script(PAIRS, model=REWARD_MODEL),
    "grpo": Script(CHATS, ("--reward_funcs", "rewards.longest", "think_format_reward", *GROUPS), samples=True),
    "rloo": Script(PROMPTS, ("--reward_funcs", "rewards.longest", *GROUPS), samples=True),
    "online_dpo": Script(PROMPTS, ("--reward_model_path", REWARD_MODEL, "--max_new_tokens", "8", "--dtype", "auto"), is_example=True, samples=True, rounding=1e-4),
    "cpo": Script(PAIRS, is_example=True),
    "orpo": Script(PAIRS, is_example=True),
    "kto_of_models": Script(MARKED, is_example=True),
    "reward_modeling": Script(PAIRS, is_example=True, model=REWARD_MODEL),
    "gspo": Script(SUMS, (*GROUPS, "--importance_sampling_level", "sequence", "--entropy_coef", "0.1"), is_example=True, samples=True,
                   changes={'"AI-MO/NuminaMath-TIR", split=["train[:5%]", "test[:5%]"]': '"data", split=["train", "test"]',
                            "dataset_name=script_args.dataset_name": 'dataset_name="data"'}),
}
THOUGHTS = [{"messages": [{"role": "user", "content": f"ask {n}", "thinking": None}, {"role": "assistant", "content": f"get {n}", "thinking": "so"}]}
            for n in range(4)]
CHATTED = [{"prompt": "ask", "messages": [{"role": "user", "content": f"ask {n}"}, {"role": "assistant", "content": f"get {n}"}]} for n in range(4)]
MANY_SUMS = [{"problem": f"What is {n} + {n}?", "solution": f"$\\boxed{{{2 * n}}}$", "messages": []} for n in range(32)]
GSM8K = [{"question": f"{n} + {n}?", "answer": f"{n} and {n}: #### {2 * n}"} for n in range(4)]
# More of examples/scripts. Those without a command line end with a push to the hub, which is left out.
SCRIPTS |= {
    "sft_nemotron_3": Script(THOUGHTS, is_example=True),
    "sft_gpt_oss": Script(THOUGHTS, is_example=True, here=False),
    "grpo_continuous_batching": Script(GSM8K, GROUPS, is_example=True, here=False, changes={'script_args.dataset_config or "main"': "None"}),
    "rloo_of_examples": Script(MANY_SUMS, is_example=True, here=False, fixed="Qwen3-0.6B-RLOO",
                               changes={'"AI-MO/NuminaMath-TIR", split=["train[:5%]", "test[:5%]"]': '"data", split=["train", "test"]',
                                        'model="Qwen/Qwen3-0.6B"': f"model={TINY!r}",
                                        "max_completion_length=1024": "max_completion_length=48, max_steps=4",
                                        'trainer.push_to_hub(dataset_name="AI-MO/NuminaMath-TIR")': "pass"}),
    "sft_gemma3": Script(CHATTED, is_example=True, here=False, fixed="gemma",
                         changes={'"open-r1/codeforces-cots", split': '"data", split',
                                  '"google/gemma-3-12b-it"': repr(str(PARITY / "tiny_gemma3_images")),
                                  'output_dir=f"{model_id}-codeforces-SFT"': 'output_dir="gemma"',
                                  'trainer.push_to_hub(dataset_name="open-r1/codeforces-cots")': "pass"}),
}
REWARDS = '''
def longest(completions, **kwargs):
    return [float(len(one if isinstance(one, str) else one[0]["content"])) for one in completions]
'''


OBJECTS = """
import sys
import torch
from datasets import Dataset, DatasetDict
from peft import LoraConfig
from transformers import AutoTokenizer, BitsAndBytesConfig, EarlyStoppingCallback, IntervalStrategy, TrainerCallback
from hone.trl import GRPOConfig, GRPOTrainer, Refused, SFTConfig, SFTTrainer

tiny, out = sys.argv[1:]
steps = []


class Counts(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        steps.append(state.global_step)


rows = DatasetDict(train=Dataset.from_list([{"text": f"one two three {n}"} for n in range(4)]), test=Dataset.from_list([{"text": "one two"}] * 2))
args = SFTConfig(out + "/sft", learning_rate=0.0, max_steps=20, per_device_train_batch_size=2, logging_steps=1, eval_strategy=IntervalStrategy.STEPS,
                 eval_steps=1, save_strategy="steps", save_steps=1, load_best_model_at_end=True, metric_for_best_model="eval_loss", threads=1,
                 skip_doctor=True, bf16=False, model_init_kwargs={"dtype": torch.float32})
config = LoraConfig(r=4, lora_alpha=12, target_modules=["q_proj"], lora_dropout=0.0, task_type="CAUSAL_LM")
trainer = SFTTrainer(model=tiny, args=args, train_dataset=rows["train"], eval_dataset=rows["test"], peft_config=config,
                     processing_class=AutoTokenizer.from_pretrained(tiny), callbacks=[Counts, EarlyStoppingCallback(2)])
trainer.train()
assert steps == [1, 2, 3], steps  # the loss does not fall: two evaluations later it ends
assert trainer.state.best_global_step == 1, trainer.state
try:
    SFTTrainer(model=torch.nn.Linear(2, 2), args=args)
except Refused as error:
    assert "a Linear in this process's memory" in str(error), error
else:
    raise AssertionError("a module is no name")


def scored(completion_ids, **kwargs):
    return torch.tensor([float(len(ids)) for ids in completion_ids])


grpo = GRPOConfig(out + "/grpo", max_steps=1, num_generations=2, per_device_train_batch_size=2, max_completion_length=4, threads=1, skip_doctor=True,
                  bf16=False, logging_steps=1)
prompts = Dataset.from_list([{"prompt": "count"}] * 2)
trainer = GRPOTrainer(tiny, scored, grpo, prompts, peft_config=LoraConfig(r=2, target_modules="all-linear"),
                      quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4"))
trainer.train()
assert trainer.state.log_history[0]["reward"] > 0, trainer.state.log_history
assert "load_in_4bit: true" in open(out + "/grpo/inputs/run.yaml").read()
"""

MODELS = """
import functools
import sys
import torch
from checks import raises
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from hone.trl import DPOTrainer, GRPOTrainer, OnlineDPOConfig, OnlineDPOTrainer, Refused, RewardTrainer, SFTConfig, SFTTrainer

tiny, rewards, out = sys.argv[1:]


refused = functools.partial(raises, Refused)


def fresh(**named):
    return AutoModelForCausalLM.from_pretrained(tiny, **named)


quick = dict(max_steps=2, per_device_train_batch_size=2, threads=1, skip_doctor=True, bf16=False, logging_steps=1)
rows = [{"text": f"one two three {n}"} for n in range(4)]
logs = []
for model in (tiny, fresh()):
    trainer = SFTTrainer(model, SFTConfig(f"{out}/{len(logs)}", **quick), train_dataset=rows)
    trainer.train()
    logs.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
assert logs[0] == logs[1] and len(logs[0]) == 2, logs
assert "bfloat16" in str(SFTTrainer(fresh(dtype=torch.bfloat16), train_dataset=rows)._settings["dtype"])

turned = fresh()
turned.config.rms_norm_eps = 1e-3
refused("rms_norm_eps: 0.001", lambda: SFTTrainer(turned))
ended = fresh()
ended.generation_config.no_repeat_ngram_size = 2
refused("no_repeat_ngram_size: 2", lambda: GRPOTrainer(ended, reward_funcs=len))
SFTTrainer(ended, train_dataset=rows)  # nothing is sampled, and it is saved with the model
assert "adapter_name_or_path" in SFTTrainer(get_peft_model(fresh(), LoraConfig(r=2, target_modules=["q_proj"])), train_dataset=rows)._settings
SFTTrainer(fresh(), SFTConfig(out), train_dataset=rows)  # the refusals are of the changes

DPOTrainer(fresh(), fresh(), train_dataset=rows)  # the model itself, loaded twice
assert DPOTrainer(fresh(), rewards, train_dataset=rows)._settings["ref_model"] == rewards

head = dict(num_labels=1)
judge, tokens = AutoModelForSequenceClassification.from_pretrained(rewards, **head), AutoTokenizer.from_pretrained(rewards)
made = OnlineDPOTrainer(fresh(), reward_funcs=judge, args=OnlineDPOConfig(out, reward_model_path=rewards), reward_processing_classes=tokens)
assert made._settings["reward_funcs"] == [rewards] and "reward_model_path" not in made._settings, made._settings
RewardTrainer(AutoModelForSequenceClassification.from_pretrained(tiny, **head), train_dataset=rows)
"""


def test_objects(folder):
    """datasets, PEFT's LoraConfig, transformers' callbacks, tokenizers and BitsAndBytesConfig are taken as they are"""
    package()
    run(folder, "-c", [OBJECTS, TINY, str(folder)])


def test_models(folder):
    """models in memory are named while they are what their folder holds, and refused where they contradict themselves"""
    package()
    run(folder, "-c", [MODELS, TINY, REWARD_MODEL, str(folder)])


def test_changed_tokenizers(folder):
    """tokenizers that were changed in memory give TRL's first loss and count of tokens, and the result has them"""
    package()
    run(folder, str(OBJECTS_FOLDER / "changed_tokenizers.py"), [str(SOURCE / "tests/fixtures/faults/llama"), TINY, str(folder)])


def test_after_training(folder):
    """get_peft_model before the trainer, changed configurations, and trainer.model after train()"""
    package()
    run(folder, str(OBJECTS_FOLDER / "after_training.py"), [str(SOURCE / "tests/fixtures/faults/llama"), str(folder)])


def test_live_models(folder):
    """trainer.model before, while and after train(), for every method: an object is trained in place"""
    package()
    run(folder, str(OBJECTS_FOLDER / "live_models.py"), [TINY, str(folder)])


def test_held_models(folder):
    """models that were changed in memory, and trained adapters, give TRL's first losses"""
    package()
    run(folder, str(OBJECTS_FOLDER / "held_models.py"), [str(SOURCE / "tests/fixtures/faults/llama"), str(folder)])


def test_prepared_rows(folder):
    """trainer.train_dataset has TRL's columns and TRL's tokens, for every method that prepares rows"""
    package()
    run(folder, str(OBJECTS_FOLDER / "prepared_rows.py"), [str(SOURCE / "tests/fixtures/faults/llama"), str(folder)])


def test_arguments(folder):
    """TrainingArguments, reward models and their tokenizers, streams and subclasses of Configs as arguments"""
    package()
    run(folder, str(OBJECTS_FOLDER / "arguments.py"), [TINY, REWARD_MODEL, str(folder)])


def test_data_helpers(folder):
    """hone's functions of rows make TRL's rows"""
    package()
    run(folder, str(OBJECTS_FOLDER / "data_helpers.py"), [TINY])


def test_optimizers(folder):
    """PyTorch's optimizers and transformers' schedules as arguments give TRL's losses, or are refused"""
    package()
    run(folder, str(OBJECTS_FOLDER / "optimizers.py"), [TINY, str(folder)])


def test_example(folder):
    """the example of docs/python.md runs, with a small model and two steps"""
    package()
    text = re.search(r"```python\n(.*?)```", (SOURCE / "docs/python.md").read_text(), re.DOTALL)[1]
    for old, new in (("HuggingFaceTB/SmolLM2-135M-Instruct", TINY), ("max_completion_length=128", "max_completion_length=8, threads=1, bf16=False"),
                     ("max_steps=200, per_device_train_batch_size=32", "max_steps=2, per_device_train_batch_size=8, skip_doctor=True")):
        same(text.count(old), 1, old)
        text = text.replace(old, new)
    rows = [{"prompt": [{"role": "user", "content": f"{n} + {n} ="}], "answer": str(2 * n)} for n in range(4)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    clean = os.environ | {"PYTHONPATH": str(SOURCE / "python"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
    ended = subprocess.run([str(PYTHON), "-c", text], cwd=folder, env=clean, capture_output=True, text=True)
    same(ended.returncode, 0, ended.stderr[-3000:] + ended.stdout[-1000:])
    holds((folder / "adapter/adapter_config.json").is_file() and "train_loss" in ended.stdout.splitlines()[-1], ended.stdout[-1000:])


# Packages that open-r1 imports for code rewards, which no test here uses.
STAND_INS = ("aiohttp", "async_lru", "dotenv", "e2b_code_interpreter", "e2b_code_interpreter/models", "morphcloud", "morphcloud/api",
             "morphcloud/sandbox", "jieba", "langdetect")
STAND_IN = """
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *arguments, **named: (lambda function: function)
"""
OPEN_R1_RECIPE = """
model_name_or_path: {model}
model_revision: main
torch_dtype: float32
attn_implementation: sdpa
dataset_name: data
output_dir: out
overwrite_output_dir: true
max_steps: 2
per_device_train_batch_size: 4
per_device_eval_batch_size: 4
gradient_checkpointing: true
gradient_checkpointing_kwargs:
  use_reentrant: false
bf16: false
learning_rate: 1.0e-03
lr_scheduler_type: cosine_with_min_lr
lr_scheduler_kwargs:
  min_lr_rate: 0.1
warmup_ratio: 0.03
logging_steps: 1
log_level: info
report_to: [none]
hub_model_id: me/model
hub_strategy: every_save
save_strategy: "no"
skip_doctor: true
threads: 1
"""
OPEN_R1 = {
    "sft": ([{"messages": [{"role": "user", "content": f"ask {n}"}, {"role": "assistant", "content": f"get {n}"}]} for n in range(4)], """
do_eval: true
eval_strategy: steps
eval_steps: 1
max_seq_length: 128
use_liger_kernel: true
chat_template: "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
"""),
    "grpo": ([{"problem": f"What is {n} + {n}?", "solution": f"${2 * n}$"} for n in range(4)], """
do_eval: false
dataset_prompt_column: problem
system_prompt: "You think."
max_prompt_length: 512
max_completion_length: 8
num_generations: 2
temperature: 0.7
use_vllm: false
log_completions: true
reward_funcs: [accuracy, format, tag_count]
reward_weights: [1.0, 1.0, 1.0]
"""),
}


def test_open_r1(folder):
    """open-r1's sft.py and grpo.py run from their first to their last line with their imports of trl changed"""
    package()
    source = SOURCE / "third_party/open-r1"
    if not (source / "commit").is_file():
        raise Skip("tests/parity/fetch_examples has fetched no open-r1")
    for name, (rows, options) in OPEN_R1.items():
        here = folder / name
        shutil.copytree(source / "src/open_r1", here / "open_r1")
        for path in here.rglob("*.py"):
            text = re.sub(r"^( *)from trl import", r"\1from hone.trl import", path.read_text(), flags=re.MULTILINE)
            path.write_text(re.sub(r"^import trl$", "import hone.trl as trl", text, flags=re.MULTILINE))
        for stand_in in STAND_INS:
            path = here / stand_in
            path.mkdir(exist_ok=True) if f"{stand_in}/" in " ".join(STAND_INS) else path.with_suffix(".py").write_text(STAND_IN)
            if path.is_dir():
                (path / "__init__.py").write_text(STAND_IN)
        (here / "data").mkdir()
        for split in ("train", "test"):
            (here / f"data/{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (here / "recipe.yaml").write_text(OPEN_R1_RECIPE.format(model=SOURCE / "tests/fixtures/faults/llama") + options)
        run(here, "-m", [f"open_r1.{name}", "--config", "recipe.yaml"])
        written = json.loads((here / "out/all_results.json").read_text())
        holds(written["train_samples"] == 4 and (name == "grpo" or "eval_loss" in written), written)
        same(json.loads((here / "out/config.json").read_text())["use_cache"], True, "use_cache")
        holds('- "open-r1"' in (here / "out/README.md").read_text() and (here / "out/model.safetensors").is_file(), "the result")
        template = (here / "out/chat_template.jinja").read_text() if name == "sft" else "[{{ m.role }}]"
        holds("[{{ m.role }}]" in template, template)


def package():
    found = list((SOURCE / "third_party/parity-venv").glob("lib/python*/site-packages/trl/scripts"))
    if not found:
        raise Skip("tests/parity/setup has installed no trl")
    return found[0]


def examples():
    package()
    folder = SOURCE / "third_party/trl-examples"
    if not (folder / "commit").is_file():
        raise Skip("tests/parity/fetch_examples has fetched no examples of TRL's repository")
    return folder


def run(folder, name, words, recorded=None):
    """Whose script `folder`/`name` is: of its imports trl, or hone.trl. `recorded`: a file for what is sampled."""
    clean = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SOURCE / "python", SOURCE / "tests/python"))), "HF_HUB_OFFLINE": "1",
                          "HF_HOME": str(folder / "cache")}
    recorder = [str(SOURCE / "tests/python/record_samples.py"), str(recorded)] if recorded else []
    ended = subprocess.run([str(PYTHON), *recorder, name, *words], cwd=folder, env=clean, capture_output=True, text=True)
    same(ended.returncode, 0, ended.stderr[-3000:] + ended.stdout[-1000:])


def prepared(folder, name):
    """Its data, its reward functions, and the script twice: as it is, and with the import of hone.trl. Options for both."""
    script = SCRIPTS[name]
    text = script.text(name.removesuffix("_of_models").removesuffix("_of_examples"))
    changed, count = re.subn(r"^( *)from trl((?:\.[a-z_.]+)?) import", r"\1from hone.trl\2 import", text, flags=re.MULTILINE)
    holds(count and "from trl" not in changed, "its imports")
    (folder / "trl_script.py").write_text(text)
    (folder / "hone_script.py").write_text(changed)
    (folder / "rewards.py").write_text(REWARDS)
    (folder / "data").mkdir()
    for split in ("train", "test"):
        (folder / f"data/{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in script.rows))
    return ["--model_name_or_path", script.model, "--dataset_name", "data", "--per_device_train_batch_size", "4" if script.samples else "2",
            "--bf16", "false", "--logging_steps", "1", "--report_to", "none", *script.options]


def adapter_test(folder, name):
    words, fixed = prepared(folder, name), SCRIPTS[name].fixed
    if fixed:
        run(folder, "hone_script.py", [])
        holds(any((folder / fixed / file).is_file() for file in ("adapter_model.safetensors", "model.safetensors")), f"a result in {fixed}")
        return
    run(folder, "hone_script.py", words + ["--output_dir", "out", "--max_steps", "2", "--use_peft", "--lora_r", "2", "--skip_doctor", "true",
                                           "--threads", "1"])
    holds((folder / "out/adapter_model.safetensors").is_file(), "an adapter")


def losses_test(folder, name):
    """Of all weights: no adapter's random numbers are in it."""
    words = prepared(folder, name) + ["--max_steps", "4", "--learning_rate", "1e-3", "--save_strategy", "steps", "--save_steps", "4", "--use_cpu", "true"]
    recorded = folder / "rollouts.jsonl" if SCRIPTS[name].samples else None
    run(folder, "trl_script.py", words + ["--output_dir", "trl"], recorded)
    run(folder, "hone_script.py", words + ["--output_dir", "hone", "--skip_doctor", "true"] + (["--replay", str(recorded)] if recorded else []))
    found = {}
    for whose in ("trl", "hone"):
        history = json.loads((folder / whose / "checkpoint-4/trainer_state.json").read_text())["log_history"]
        found[whose] = [(entry["loss"], entry["grad_norm"]) for entry in history if "loss" in entry]
    same([len(steps) for steps in found.values()], [4, 4], "steps")
    for ours, theirs in zip(found["hone"], found["trl"]):
        for at, (a, b) in enumerate(zip(ours, theirs)):
            # 2e-5: the loss of a policy that has not moved is 0, but for rounding, where gradients are of 100 and more
            holds(abs(a - b) <= 1e-4 * abs(b) + 2e-5 + (SCRIPTS[name].rounding if at == 0 else 0), f"hone {ours}, TRL {theirs}: {found}")
    holds(found["trl"][0] != found["trl"][3], f"the weights move: {found}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*")
    given = parser.parse_args()
    cases = [(one.__name__[5:], one.__doc__, one)
             for one in (test_objects, test_models, test_changed_tokenizers, test_after_training, test_live_models, test_data_helpers,
                         test_held_models, test_prepared_rows, test_arguments, test_optimizers, test_open_r1, test_example)]
    cases += [(name, f"TRL's script {name}.py runs with its import changed", functools.partial(adapter_test, name=name)) for name in SCRIPTS]
    cases += [(f"{name}-losses", f"TRL's script {name}.py gives TRL's losses and gradient norms in float32", functools.partial(losses_test, name=name))
              for name, script in SCRIPTS.items() if script.here]
    tests = Tests()
    for name, title, case in cases:
        if not given.only or name in given.only:
            with tempfile.TemporaryDirectory() as folder:
                tests.run([case], pathlib.Path(folder), title=title)
    return 1 if tests.failed else 0


sys.exit(main())
