#!/usr/bin/env python3
"""hone check|doctor|plan SCRIPT.py --run: scripts of TRL, Unsloth and transformers, executed until their train().

usage: tests/python/recorded_test.py [--hone build/hone] [--installed]
--installed: with the packages of third_party/parity-venv in the place of tests/python/recorded.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from checks import SOURCE, TINY, Tests, holds, same

STUBS = SOURCE / "tests/python/recorded"
PARITY_PYTHON = SOURCE / "third_party/parity-venv/bin/python"
PROGRAM, INSTALLED = str(SOURCE / "build/hone"), False

SFT = f"""
import argparse
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=1e-4)
asked = parser.parse_args()
tokenizer = AutoTokenizer.from_pretrained({TINY!r})
model = AutoModelForCausalLM.from_pretrained({TINY!r}, dtype="bfloat16", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
model.config.use_cache = False
print("parameters", sum(one.numel() for one in model.parameters()))

def made(row):
    return {{"text": f"{{row['q']}} -> {{row['a']}}"}}

rows = Dataset.from_list([{{"q": f"one {{n}}", "a": "two"}} for n in range(4)]).map(made, remove_columns=["q", "a"])
trainer = SFTTrainer(model=model, args=SFTConfig("runs/out", learning_rate=asked.rate, max_steps=2, per_device_train_batch_size=2),
                     train_dataset=rows, processing_class=tokenizer, peft_config=LoraConfig(r=4, lora_alpha=12, target_modules=["q_proj"]))
trainer.train()
raise RuntimeError("nothing behind train() runs")
"""
UNSLOTH = f"""
from unsloth import FastLanguageModel, is_bfloat16_supported
from unsloth.chat_templates import train_on_responses_only
from datasets import Dataset
from transformers import TrainingArguments
from trl import SFTTrainer
model, tokenizer = FastLanguageModel.from_pretrained(model_name={TINY!r}, max_seq_length=256)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj", "lm_head"])
chats = [[{{"role": "user", "content": f"ask {{n}}"}}, {{"role": "assistant", "content": "get"}}] for n in range(4)]
spelled = [{{"text": "".join(f"<{{turn['role']}}>{{turn['content']}}" for turn in chat)}} for chat in chats] + [{{"text": "<user>nobody answers"}}]
trainer = SFTTrainer(model=model, tokenizer=tokenizer, train_dataset=Dataset.from_list(spelled), dataset_text_field="text", max_seq_length=512,
                     args=TrainingArguments(output_dir="out", max_steps=2, learning_rate=2e-4, fp16=not is_bfloat16_supported(),
                                            bf16=is_bfloat16_supported()))
trainer = train_on_responses_only(trainer, instruction_part="<user>", response_part=MARK)
trainer.train()
"""
GRPO = f"""
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
import wandb
wandb.init(project="nothing").log({{"a": 1}})
calls = []

def same_length(prompts, completions, answer, **kwargs):
    calls.append(len(completions))
    print("scored", len(completions))
    return [float(len(completion)) for completion in completions]

GRPOTrainer(model={TINY!r}, reward_funcs=[same_length], train_dataset=Dataset.from_list([{{"prompt": f"count {{n}}", "answer": "1"}} for n in range(4)]),
            args=GRPOConfig(output_dir="out", num_generations=2, per_device_train_batch_size=2, max_completion_length=8, max_steps=1)).train()
"""
TRAINER = f"""
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained({TINY!r})
tokenizer.pad_token, tokenizer.pad_token_id = tokenizer.eos_token, tokenizer.eos_token_id
rows = Dataset.from_list([{{"text": f"one {{n}}"}} for n in range(4)])
rows = rows.map(lambda row: dict(tokenizer(row["text"] + tokenizer.eos_token)), remove_columns=["text"])
Trainer(model=AutoModelForCausalLM.from_pretrained({TINY!r}), args=TrainingArguments("out", max_steps=2), train_dataset=rows,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False)).train()
"""
OWN_LOSS = f"""
from trl import SFTTrainer

class Mine(SFTTrainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        return 0

Mine(model={TINY!r}, train_dataset=[{{"text": "a"}}]).train()
"""


def run(folder, text, *options, command="check", name="train.py", seconds=100):
    """What the program says of a script with this text: (exit code, stdout and stderr)."""
    (folder / name).write_text(text, encoding="utf-8")
    env = {**os.environ, "HONE_PYTHON": str(PARITY_PYTHON) if INSTALLED else sys.executable, "TMPDIR": str(folder)}
    env["PYTHONPATH"] = "" if INSTALLED else str(STUBS)
    for variable in ("HONE_CALLER", "VIRTUAL_ENV", "HF_HUB_OFFLINE"):
        env.pop(variable, None)
    ended = subprocess.run([PROGRAM, command, name, "--run", *options], cwd=folder, env=env, capture_output=True, text=True, timeout=seconds,
                           stdin=subprocess.DEVNULL)
    return ended.returncode, ended.stdout + ended.stderr


def has(said, *texts):
    for text in texts:
        holds(text in said, f"{text!r} in:\n{said}")


def kept(folder, name="kept"):
    """(the text of the options, the rows) that --keep left."""
    inputs = folder / name / "run/inputs"
    return (inputs / "run.yaml").read_text(), [json.loads(line) for line in (inputs / "train.jsonl").read_text().splitlines()]


def test_sft(folder):
    """SFT of TRL: the rows that the script's own function makes, its options, its arguments"""
    code, said = run(folder, SFT, "--keep", "kept", "--", "--rate", "3e-4")
    same(code, 0, said)
    has(said, "run       train.py is executed by", "without a network", "stopped at train() of SFTTrainer, made at train.py:19", "learning_rate                kept     0.0003", "| one 0 -> two")
    options, rows = kept(folder)
    has(options, "learning_rate: 0.0003\n", "lora_r: 4\n", 'lora_target_modules: ["(.*\\\\.)?q_proj"]\n', "load_in_4bit: true\n", 'bnb_4bit_quant_type: "fp4"\n',
        'dtype: "bfloat16"\n')
    same([row["text"] for row in rows], [f"one {n} -> two" for n in range(4)])
    holds(not (folder / "runs").exists(), "the script's output_dir is not written")
    code, said = run(folder, SFT, "--keep", "kept")
    same(code, 2, said)
    has(said, "expected a folder that is new or empty")


def test_unsloth(folder):
    """SFT of Unsloth: defaults, lengths, what is trained of a row, and a marker that no row has"""
    code, said = run(folder, UNSLOTH.replace("MARK", "'<assistant>'"), "--keep", "kept")
    same(code, 0, said)
    has(said, "lm_head: full copies in Unsloth", "512 in the config and max_seq_length 256 of the model: the lesser counts",
        "1 of 5 rows have nothing to train", "answered as a GPU of today does")
    options, rows = kept(folder)
    has(options, "max_length: 256\n", "lora_r: 8\n", 'lora_modules_to_save: ["lm_head"]\n', "load_in_4bit: true\n", 'bnb_4bit_quant_type: "nf4"\n',
        "bf16: true\n", "learning_rate: 0.0002\n")
    same(len(rows), 4)
    for row in rows:
        same(len(row["labels"]), len(row["input_ids"]))
        trained = [token for token, label in zip(row["input_ids"], row["labels"]) if label != -100]
        same(trained, row["input_ids"][-len(trained):], "the answer")
        holds(0 < len(trained) <= 3, f"`get` is trained: {trained}")
    code, said = run(folder, UNSLOTH.replace("MARK", "'<assistent>'"))
    same(code, 2, said)
    has(said, "train.py:14, train_on_responses_only, response_part", "'<assistent>' in none of 5 rows", "DATA-01")


def test_unsloth_defaults(folder):
    """Unsloth's defaults are those that hone check reads without running the script"""
    script = UNSLOTH.replace("MARK", "'<assistant>'").replace("TrainingArguments(output_dir", "SFTConfig(output_dir").replace(
        "import SFTTrainer", "import SFTConfig, SFTTrainer")
    code, said = run(folder, script, "--keep", "kept")
    same(code, 0, said)
    ran = dict(line.split(": ", 1) for line in kept(folder)[0].splitlines()[1:])
    read = json.loads(subprocess.run([PROGRAM, "check", "train.py", "--json"], cwd=folder, capture_output=True, text=True).stdout)
    names = [name for name in ("per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate", "warmup_steps", "weight_decay", "optim",
                               "seed", "bf16") if name in ran]
    holds(len(names) >= 7, f"{names} of {ran}")
    told = {**read["options"], **read["defaults_of_trainer"]}
    for name in names:
        same(json.loads(ran[name]), told[name], name)


def test_rewards(folder):
    """GRPO: the doctor calls the script's reward function, in the script's process"""
    code, said = run(folder, GRPO, "--keep", "kept", command="doctor")
    holds(code in (0, 2), said)
    has(said, "stopped at train() of GRPOTrainer", "GRPO")
    holds("cannot import" not in said and "hone.caller" not in said.replace("hone.caller.same_length", ""), said)
    has((folder / "kept/printed.txt").read_text(), "scored ")
    for line, told in (("raise ValueError('no score')", "raised ValueError: no score"), ("__import__('time').sleep(100)", "it took longer than reward_timeout")):
        late = GRPO.replace('print("scored", len(completions))', line).replace("GRPOConfig(", "GRPOConfig(reward_timeout=2, ")
        code, said = run(folder, late, command="doctor", seconds=40)
        same(code, 2, said)
        has(said, "RL-05", told)


def test_formatting(folder):
    """Unsloth's formatting_func gets columns, and no end is put behind its texts"""
    text = f"""
from unsloth import FastLanguageModel
from unsloth.chat_templates import get_chat_template, standardize_sharegpt
from datasets import Dataset
from trl import SFTConfig, SFTTrainer
model, tokenizer = FastLanguageModel.from_pretrained({TINY!r})
model = FastLanguageModel.get_peft_model(model, r=2)
tokenizer = get_chat_template(tokenizer, chat_template="chatml", map_eos_token=False)
chats = Dataset.from_list([{{"conversations": [{{"from": "human", "value": "ask"}}, {{"from": "gpt", "value": "get"}}]}}] * 2)
chats = standardize_sharegpt(chats)
assert chats[0]["conversations"] == [{{"role": "user", "content": "ask"}}, {{"role": "assistant", "content": "get"}}], chats[0]
SFTTrainer(model=model, processing_class=tokenizer, train_dataset=chats, args=SFTConfig("out", max_steps=1),
           formatting_func=lambda rows: [turns[0]["content"] + ENDS for turns in rows["conversations"]]).train()
"""
    for end, ended in (("''", False), ("tokenizer.eos_token", True)):
        name = f"kept{ended}"
        code, said = run(folder, text.replace("ENDS", end), "--keep", name)
        same(code, 0, said)
        rows = kept(folder, name)[1]
        same({row["input_ids"][-1] == 2 for row in rows}, {ended}, "only the script puts an end")
    has(kept(folder, "keptTrue")[0], "max_length: 2048\n")
    code, said = run(folder, text.replace("ENDS for turns in rows[\"conversations\"]]", "'' for turns in rows[\"conversations\"]][1:]"))
    same(code, 2, said)
    has(said, "a list of 2 texts, one for each row")


def test_frozen(folder):
    """Parameters that a script freezes: those that are left are trained; a model with none is refused"""
    text = f"""
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
model = AutoModelForCausalLM.from_pretrained({TINY!r})
for parameter in PART.parameters():
    parameter.requires_grad = False
print(model.num_parameters(only_trainable=True), model.num_parameters())
SFTTrainer(model=model, args=SFTConfig("out", max_steps=1), train_dataset=[{{"text": "one two"}}] * 2).train()
"""
    code, said = run(folder, text.replace("PART", "model.model.layers[:1]"), "--keep", "kept")
    same(code, 0, said)
    names = json.loads(re.search(r"^unfrozen_parameters: (.*)$", kept(folder)[0], re.MULTILINE)[1])
    holds(any(r"layers\.1\." in name for name in names) and not any(r"layers\.0\." in name for name in names), f"layer 0 is frozen: {names}")
    code, said = run(folder, text.replace("PART", "model"))
    same(code, 2, said)
    has(said, "requires_grad=False on every one")


def test_frozen_base(folder):
    """A frozen base with an adapter, cast to another type, trains the adapter; a token of the hub is in no answer"""
    code, said = run(folder, f"""
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
model = AutoModelForCausalLM.from_pretrained({TINY!r}, dtype="bfloat16").float()
for parameter in model.parameters():
    parameter.requires_grad = False
SFTTrainer(model=model, args=SFTConfig("out", max_steps=1, hub_token="hf_of_the_user"), train_dataset=[{{"text": "one two"}}] * 2,
           peft_config=LoraConfig(r=4)).train()
""", "--json")
    same(code, 0, said)
    has(said, '"dtype":"float32"', '"use_peft":true', '"hub_token"')
    holds("hf_of_the_user" not in said and "unfrozen_parameters" not in said, said)


def test_unsloth_groups(folder):
    """GRPO of Unsloth: its own loss and beta, and what it sets for the loss of DAPO"""
    text = GRPO.replace("from trl", "import unsloth\nfrom trl", 1)
    for more, expected in (("", ('loss_type: "bnpo"\n', "beta: 0.001\n")),
                           ("loss_type='dapo', epsilon_high=0.2, ", ('loss_type: "dapo"\n', "beta: 0.001\n", "epsilon_high: 0.28\n", "mask_truncated_completions: true\n"))):
        name = f"kept{len(more)}"
        code, said = run(folder, text.replace("output_dir=", f"{more}output_dir="), "--keep", name)
        same(code, 0, said)
        has(kept(folder, name)[0], *expected)
    has(said, "Unsloth sets epsilon_high=0.28")


def test_padded(folder):
    """Labels of padding that transformers would train are refused"""
    text = TRAINER.replace("lambda row: dict(tokenizer(row[\"text\"] + tokenizer.eos_token))",
                           "lambda row: {'input_ids': [5, 6, 2], 'attention_mask': [1, 1, 0], 'labels': [5, 6, 2]}")
    code, said = run(folder, text.replace("DataCollatorForLanguageModeling(tokenizer, mlm=False)", "None"))
    same(code, 2, said)
    has(said, "labels that are trained: tokens of padding")


def test_completion_only(folder):
    """DataCollatorForCompletionOnlyLM of former releases of TRL: what stands behind the mark is trained"""
    text = f"""
from datasets import Dataset
from transformers import AutoTokenizer
from trl import DataCollatorForCompletionOnlyLM, SFTConfig, SFTTrainer
tokenizer = AutoTokenizer.from_pretrained({TINY!r})
rows = Dataset.from_list([{{"text": f"ask ### get {{n}}"}} for n in range(3)] + [{{"text": "no mark"}}])
SFTTrainer(model={TINY!r}, processing_class=tokenizer, args=SFTConfig("out", max_steps=1), train_dataset=rows,
           data_collator=DataCollatorForCompletionOnlyLM(" ###", tokenizer=tokenizer)).train()
"""
    code, said = run(folder, text, "--keep", "kept")
    same(code, 0, said)
    has(said, "1 of 4 rows have no ' ###'")
    rows = kept(folder)[1]
    same(len(rows), 3)
    for row in rows:
        first = next(at for at, label in enumerate(row["labels"]) if label != -100)
        same(row["labels"][first:], row["input_ids"][first:])
        holds(first > 1 and len(row["labels"]) - first < len(row["labels"]) - 1, f"the prompt is masked: {row}")


def test_trainer(folder):
    """transformers.Trainer: rows of tokens, the labels of its collator, and the end that it hides"""
    code, said = run(folder, TRAINER, "--keep", "kept")
    same(code, 0, said)
    has(said, "stopped at train() of Trainer", "hides every end from the loss")
    options, rows = kept(folder)
    has(options, "learning_rate: 5e-05\n", "bf16: false\n", "max_length: null\n", "max_steps: 2\n")
    for row in rows:
        same(row["labels"], [*row["input_ids"][:-1], -100])
    code, said = run(folder, TRAINER.replace("DataCollatorForLanguageModeling(tokenizer, mlm=False)", "lambda batch: batch"))
    same(code, 2, said)
    has(said, "Trainer, data_collator]", "code of the script's own, which changes batches")
    code, said = run(folder, TRAINER.replace("mlm=False", "mlm=True"))
    same(code, 2, said)
    has(said, "masked language modeling" if INSTALLED else "mlm=True: words that are masked at random")


def test_ends(folder):
    """Scripts that end before train(): an exit, an exception with its line, no trainer, no call"""
    cases = [("import argparse\np = argparse.ArgumentParser()\np.add_argument('--model', required=True)\np.parse_args()\n",
              ("train.py:4", "the script ended before train(), with the exit code 2", "required: --model", "SCRIPT --run --")),
             ("def load(row):\n    return row['nothing']\n\n\nload({})\n", ("[train.py:2]", "KeyError: 'nothing'")),
             ("print('hello')\n", ("it makes no trainer of TRL, Unsloth or transformers",)),
             (f"from trl import SFTTrainer\nSFTTrainer(model={TINY!r}, train_dataset=[{{'text': 'a'}}])\n", ("makes SFTTrainer (train.py:2)",)),
             ("import os\nprint('so long')\nos._exit(3)\n", ("its Python ended with status 3 before that", "so long")),
             ("def f(:\n", ("[train.py:1] expected Python", "SyntaxError")),
             ("import nowhere_to_be_found\n", ("ModuleNotFoundError", "install nowhere_to_be_found there")),
             ("from trl import PPOTrainer\n", ("hone.trl has no 'PPOTrainer'",)),
             (OWN_LOSS, ("Mine.compute_loss", "a method that replaces one of them"))]
    for text, expected in cases:
        code, said = run(folder, text)
        same(code, 2, said)
        has(said, *expected)
        holds("Traceback" not in said and "terminate called" not in said, said)


def test_own_trainers(folder):
    """A script that imports hone.trl itself is recorded too: nothing is trained; what it prints is shown by -v"""
    text = f"from hone.trl import SFTConfig, SFTTrainer\nprint('from the script')\n" \
           f"SFTTrainer({TINY!r}, args=SFTConfig('out', max_steps=1), train_dataset=[{{'text': 'one two'}}] * 4).train()\n"
    code, said = run(folder, text, "-v", command="doctor")
    same(code, 0, said)
    has(said, "stopped at train() of SFTTrainer, made at train.py:3", "\nfrom the script\n")
    holds(not (folder / "out").exists(), "nothing is trained")


def test_catches_all(folder):
    """A script that catches every exception cannot go on behind train()"""
    text = SFT.replace("trainer.train()\nraise", "try:\n    trainer.train()\nexcept BaseException:\n    pass\nraise")
    code, said = run(folder, text)
    same(code, 0, said)
    has(said, "stopped at train() of SFTTrainer")


def test_loop(folder):
    """A script that loops for ever: the limit, the line, and nothing of it is left"""
    begun = time.monotonic()
    code, said = run(folder, "import subprocess\nsubprocess.Popen(['sleep', '987654'])\nwhile True:\n    pass\n", "--run_limit", "3")
    same(code, 2, said)
    has(said, "within 3 seconds", "it still runs, at line", "--run_limit gives it more seconds")
    holds(time.monotonic() - begun < 15, "it ends soon")
    left = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if readable(path).split(b"\0")[:2] == [b"sleep", b"987654"]]
    same(left, [], "its children")


def readable(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_network(folder):
    """A script that wants the network: refused with the address, and given by --online"""
    text = "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=0.2)\n"
    code, said = run(folder, text)
    same(code, 2, said)
    has(said, "train.py:2", "no network: 192.0.2.1 was asked for", "--online")
    code, said = run(folder, text, "--online")
    same(code, 2, said)
    holds("no network" not in said, said)
    has(said, "it has the network")
    here = "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nsocket.create_connection(s.getsockname())\nprint('connected')\n"
    code, said = run(folder, here)
    has(said, "the script ended before train(): it makes no trainer")


def test_notebook(folder):
    """A notebook: cells in their order, without shell and magic lines; the place is a cell's"""
    cells = [["%%capture\n", "!pip install unsloth\n", "steps = 2"], ["%%bash\n", "exit 1"], SFT.replace("max_steps=2", "max_steps=steps").replace(
        "parser.parse_args()", "parser.parse_args([])")]
    book = {"cells": [{"cell_type": "code", "source": one} for one in cells] + [{"cell_type": "markdown", "source": "raise"}]}
    code, said = run(folder, json.dumps(book), name="run.ipynb")
    same(code, 0, said)
    has(said, "4 shell or magic lines are left out", "made at run.ipynb, cell 3 line 19", "max_steps                    kept     2")
    book["cells"].insert(2, {"cell_type": "code", "source": "a = 1\nraise ValueError('so')"})
    code, said = run(folder, json.dumps(book), name="run.ipynb")
    same(code, 2, said)
    has(said, "[run.ipynb, cell 3 line 2]", "ValueError: so")


def test_options(folder):
    """Nothing runs without --run; what belongs to it is refused beside other files"""
    (folder / "train.py").write_text("open('ran', 'w')\nfrom trl import SFTTrainer\n")
    subprocess.run([PROGRAM, "check", "train.py"], cwd=folder, capture_output=True)
    holds(not (folder / "ran").exists(), "hone check does not run a script")
    for words, text in ((["train.py", "--online"], "--run beside what is of a script"),
                        (["run.yaml", "--run"], "a script of Python or a notebook")):
        (folder / "run.yaml").write_text("max_steps: 1\n")
        ended = subprocess.run([PROGRAM, "doctor", *words], cwd=folder, capture_output=True, text=True)
        same(ended.returncode, 2, ended.stderr)
        has(ended.stderr, text)


def test_page(folder):
    """The example of docs/doctor-for-others.md says what the page shows"""
    page = (SOURCE / "docs/doctor-for-others.md").read_text(encoding="utf-8")
    text, shown = re.search(r"^```python\n(.*?)^```.*?^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL).groups()
    code, said = run(folder, text.replace("tests/fixtures/parity/tiny_llama", TINY), command="doctor", name="numbers.py")
    same(code, 0, said)
    rest = iter(said.splitlines())
    for line in shown.splitlines():
        holds(line in rest, f"{line!r} in this order in:\n{said}")


def test_plan(folder):
    """hone plan takes the run of a script too"""
    code, said = run(folder, SFT, "--nproc", "1", "--device", "cpu", command="plan")
    same(code, 0, said)
    has(said, "stopped at train() of SFTTrainer", "hone plan")


def main():
    global PROGRAM, INSTALLED
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", default=PROGRAM)
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    PROGRAM, INSTALLED = os.path.abspath(asked.hone), asked.installed
    os.environ["HONE_PROGRAM"] = PROGRAM
    tests = Tests()
    for name, function in list(globals().items()):
        if name.startswith("test_") and (not asked.names or name in asked.names):
            folder = pathlib.Path(tempfile.mkdtemp(prefix="hone-recorded-"))
            try:
                tests.run([function], folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
