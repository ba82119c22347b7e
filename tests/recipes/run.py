#!/usr/bin/env python3
"""Option sets of the field: each file of sets/ is checked by `hone check` and trains one step, or is refused as it says.

usage: run.py --hone PROGRAM [--jobs 2] [--only TEXT] [--few]

--few: every set is checked or refused; of sft, grpo and dpo, which have most of them, one of three also trains its step.

A set has names and values as recipes of alignment-handbook, open-r1, SageMaker, philschmid and TRL's own scripts have them.
Its first line names the command (`# hone sft`); a second one, `# refused: TEXT`, says that it is refused, and what the message
holds. {model} is a tiny model; {chat}, {pairs}, {comparisons}, {marked}, {math}, {programs}, {questions}, {prompts}, {text} are folders of rows that
this program writes, {spectrum} a file of patterns. Sizes are cut on the command line. Prints `ok NAME` or `not ok NAME: why`, then how many run and why the others
are refused."""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
LIMIT_S = 120
SAMPLERS = ("grpo", "rloo", "online-dpo")
# Why a refused set is refused, by what its message holds: the reasons that a user is told at the end.
TRUE_REASONS = {"Piston": "a reward of Piston's servers", "float16": "float16 overflows in training"}
# What a run leaves: an adapter, or with use_peft false the model.
RESULTS = {True: "adapter_config.json", False: "config.json"}
# A file as Spectrum writes it.
SPECTRUM = "unfrozen_parameters:\n- ^lm_head.weight$\n- ^model.embed_tokens.weight$\n# mlp.down_proj layers\n- model.layers.1.mlp.down_proj\n"


def turn(role, content):
    return {"role": role, "content": content}


def rows_of_kinds():
    """name -> rows, 12 of each."""
    sums = [(a, a + 3) for a in range(1, 13)]
    chat = [{"messages": [turn("user", f"What is {a} + 3?"), turn("assistant", f"It is {b}.")]} for a, b in sums]
    return {
        "chat": chat,
        "chat2": list(reversed(chat)),
        "text": [{"text": f"{a} + 3 = {b}"} for a, b in sums],
        "pairs": [{"prompt": f"What is {a} + 3?", "chosen": [turn("user", f"What is {a} + 3?"), turn("assistant", f"It is {b}.")],
                   "rejected": [turn("user", f"What is {a} + 3?"), turn("assistant", "I will not say.")]} for a, b in sums],
        "comparisons": [{"chosen": [turn("user", f"What is {a} + 3?"), turn("assistant", f"It is {b}.")],
                         "rejected": [turn("user", f"What is {a} + 3?"), turn("assistant", "I will not say.")]} for a, b in sums],
        "pairs2": [{"prompt": f"What is {a} - 3?", "chosen": [turn("user", f"What is {a} - 3?"), turn("assistant", "Less.")],
                    "rejected": [turn("user", f"What is {a} - 3?"), turn("assistant", "More, I would say.")]} for a, _ in sums],
        "marked": [{"prompt": [turn("user", f"What is {a} + 3?")], "completion": [turn("assistant", f"It is {b}.")],
                    "label": a % 2 == 0} for a, b in sums],
        "math": [{"problem": f"What is {a} + 3?", "solution": f"$ {b} $"} for a, b in sums],
        "programs": [{"problem": f"Print {a} more than the number that you read.",
                      "verification_info": {"language": "python", "test_cases": [
                          {"input": f"{b}\n", "output": f"{a + b}\n", "type": "stdin_stdout"}]}} for a, b in sums],
        "questions": [{"question": f"What is {a} + 3?", "answer": f"{b}"} for a, b in sums],
        "prompts": [{"prompt": [turn("user", f"What is {a} + 3?")], "solution": f"$ {b} $"} for a, b in sums],
    }


def write_data(folder):
    """{name: folder} of rows; each has the splits that recipes name."""
    places = {}
    for name, rows in rows_of_kinds().items():
        place = folder / name
        place.mkdir(parents=True)
        for split in ("train", "train_sft", "train_prefs"):
            (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:8]))
        for split in ("test", "test_sft", "test_prefs", "validation"):
            (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[8:]))
        places[name] = place
    return places


def cuts(command, text):
    """Options that make a step small."""
    small = {"max_steps": 1, "gradient_accumulation_steps": 1, "output_dir": "out", "threads": 1, "skip_doctor": "true",
             "push_to_hub": "false", "report_to": "none"}
    group = re.search(r"^num_generations: (\d+)", text, re.M)
    batch = int(group.group(1)) if group else 8 if command == "grpo" else 2
    small["per_device_train_batch_size"] = small["per_device_eval_batch_size"] = batch
    if command in ("grpo", "rloo"):
        small["max_completion_length"] = 8
    elif command == "online-dpo":
        small["max_new_tokens"] = 8
    else:
        small["max_length"] = 128
    if command in ("cpo", "orpo") and re.search(r"^max_prompt_length: \d", text, re.M):
        small["max_prompt_length"] = 64
    return [word for name, value in small.items() for word in (f"--{name}", str(value))]


def run(hone, words, folder):
    try:
        done = subprocess.run([hone, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)
    except subprocess.TimeoutExpired:
        return -1, f"no end within {LIMIT_S} s"
    return done.returncode, done.stdout + done.stderr


def last_lines(text, count=6):
    return " | ".join(text.strip().splitlines()[-count:])


def trains(command, name, few):
    return not few or command not in ("sft", "grpo", "dpo") or sum(name.encode()) % 3 == 0


def try_set(path, hone, places, root, few):
    """(name, expected refusal or None, "" or what went wrong, seconds of the check, whether it trained a step)."""
    text = path.read_text(encoding="utf-8")
    command = re.match(r"# hone (\S+)", text).group(1)
    refusal = re.search(r"^# refused: (.*)$", text, re.M)
    for name, place in places.items():
        text = text.replace("{" + name + "}", str(place))
    folder = root / path.stem
    folder.mkdir()
    (folder / "run.yaml").write_text(text)
    shutil.copy(SOURCE / "tests/fixtures/config/sharding/zero2.json", folder / "ds_config.json")
    shutil.copy(SOURCE / "tests/fixtures/config/sharding/accelerate_zero3.yaml", folder / "accelerate.yaml")
    words = cuts(command, text)
    begun = time.monotonic()
    code, shown = run(hone, ["check", command, "run.yaml", *words], folder)
    seconds = time.monotonic() - begun
    wrong, stepped = "", refusal is None and trains(command, path.stem, few)
    if refusal:
        code, told = run(hone, [command, "--config", "run.yaml", *words], folder)
        if code != 2 or refusal.group(1) not in told:
            wrong = f"should be refused with `{refusal.group(1)}`; exit {code}: {last_lines(told)}"
    elif code != 0:
        wrong = f"hone check, exit {code}: {last_lines(shown, 12)}"
    elif stepped:
        code, told = run(hone, [command, "--config", "run.yaml", *words], folder)
        peft = re.search(r"^use_peft: true", text, re.M | re.I) is not None
        if code != 0 or not (folder / "out" / RESULTS[peft]).is_file():
            wrong = f"one step, exit {code}: {last_lines(told, 12)}"
    shutil.rmtree(folder)
    return path.stem, refusal.group(1) if refusal else None, wrong, seconds, stepped


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--few", action="store_true")
    options = parser.parse_args()
    hone = str(pathlib.Path(options.hone).resolve())
    sets = [path for path in sorted((HERE / "sets").glob("*.yaml")) if options.only in path.stem]
    refused, failed, slowest, ran, checked = collections.Counter(), 0, 0.0, 0, 0
    with tempfile.TemporaryDirectory(prefix="hone-recipes-") as made, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        root = pathlib.Path(made)
        places = {"model": SOURCE / "tests/fixtures/parity/tiny_llama", "spectrum": root / "spectrum.yaml",
                  **write_data(root / "data")}
        places["spectrum"].write_text(SPECTRUM)
        for name, refusal, wrong, seconds, stepped in pool.map(lambda path: try_set(path, hone, places, root, options.few), sets):
            slowest = max(slowest, seconds)
            if wrong:
                failed += 1
                print(f"not ok {name}: {wrong}")
                continue
            print(f"ok {name}" + (f": refused, {refusal}" if refusal else ""), flush=True)
            ran += stepped
            checked += refusal is None and not stepped
            if refusal:
                refused[TRUE_REASONS.get(refusal, refusal)] += 1
    print(f"   {ran} of {len(sets)} sets train a step, {checked} are checked only, {sum(refused.values())} are refused, {failed} fail; "
          f"the slowest check took {slowest:.1f} s")
    for reason, count in refused.most_common():
        print(f"   refused {count}: {reason}")
    return 1 if failed else 0


sys.exit(main())
