#!/usr/bin/env python3
"""30 healthy runs of the real SmolLM2-135M-Instruct: every method, ranks 4 to 128, plain and chat data.

Each trains a few steps with its examination. None may show a FAIL, none a warning: every warning here is wrong. Run by
`./test --slow`; skipped where models/smollm2-gguf is not there.

  real.py --hone build/hone            TAP-like lines, and at the end how many runs warned of what
  real.py NAME ...                     the runs whose name holds one of these words
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parent.parent / "models" / "smollm2-gguf" / "SmolLM2-135M-Instruct.Q4_1.gguf"
LIMIT_S = 900
BASE = {"use_peft": True, "lora_target_modules": "all-linear", "max_steps": 4, "logging_steps": 1, "save_strategy": "no",
        "report_to": "none", "threads": 2, "output_dir": "out", "dataset_name": "rows.jsonl", "seed": 7}
SFT = {**BASE, "per_device_train_batch_size": 2, "learning_rate": 2e-4}
PAIR = {**BASE, "per_device_train_batch_size": 2, "learning_rate": 2e-5, "lora_dropout": 0.0}
POLICY = {**BASE, "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 96, "learning_rate": 1e-5,
          "lora_dropout": 0.0, "reward_funcs": ["length(target=20)"]}
NAMES = ["Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jonas", "Kate", "Leo"]
THINGS = ["apples", "books", "pencils", "stamps", "cards", "shells", "coins", "marbles"]
PLACES = ["at the market", "in the park", "at school", "on the beach", "in the library", "at home"]


def stories(count=120):
    """(question, answer, number): word problems, each with other numbers and words."""
    out = []
    for i in range(count):
        name, other = NAMES[i % 12], NAMES[(i * 5 + 3) % 12]
        thing, place = THINGS[(i // 3) % 8], PLACES[(i // 5) % 6]
        a, b = 3 + (i * 7) % 29, 2 + (i * 11) % 17
        if i % 2:
            out.append((f"{name} has {a + b} {thing} and gives {b} of them to {other} {place}. How many {thing} does {name} have left?",
                        f"{name} starts with {a + b} {thing} and gives away {b}, so {a + b} - {b} = {a} {thing} are left.", a))
        else:
            out.append((f"{name} finds {a} {thing} {place}, and {other} brings {b} more. How many {thing} do they have together?",
                        f"Together they have {a} + {b} = {a + b} {thing}.", a + b))
    return out


def user(text):
    return [{"role": "user", "content": text}]


def reply(text):
    return [{"role": "assistant", "content": text}]


def plain():
    return [{"text": f"{q} {a}"} for q, a, _ in stories()]


def chat():
    return [{"messages": user(q) + reply(a)} for q, a, _ in stories()]


def system_chat():
    return [{"messages": [{"role": "system", "content": "You are a patient teacher."}] + user(q) + reply(a)} for q, a, _ in stories()]


def turns():
    all_ = stories()
    return [{"messages": user(q) + reply(a) + user(r) + reply(b)} for (q, a, _), (r, b, _) in zip(all_[:60], all_[60:])]


def completion():
    return [{"prompt": q, "completion": " " + a} for q, a, _ in stories()]


def chat_completion():
    return [{"prompt": user(q), "completion": reply(a)} for q, a, _ in stories()]


def pairs():
    return [{"prompt": q, "chosen": " " + a, "rejected": f" They have about {n + 1 + i % 3} of them, I believe, but it is hard to say."}
            for i, (q, a, n) in enumerate(stories())]


def chat_pairs():
    return [{"prompt": user(row["prompt"]), "chosen": reply(row["chosen"].strip()), "rejected": reply(row["rejected"].strip())}
            for row in pairs()]


def implicit_pairs():
    return [{"chosen": row["prompt"] + row["chosen"], "rejected": row["prompt"] + row["rejected"]} for row in chat_pairs()]


def marked():
    return [{"prompt": row["prompt"], "completion": row["chosen" if i % 2 else "rejected"], "label": bool(i % 2)}
            for i, row in enumerate(pairs())]


def prompts():
    return [{"prompt": user(q + " Answer with the number only."), "answer": str(n)} for q, _, n in stories()]


def plain_prompts():
    return [{"prompt": f"Question: {q}\nAnswer:", "answer": str(n)} for q, _, n in stories()]


# name, method, rows, options beyond the method's
RUNS = [
    ("sft text, rank 4", "sft", plain, {"lora_r": 4}),
    ("sft text, rank 16, packed", "sft", plain, {"lora_r": 16, "packing": True, "max_length": 256}),
    ("sft text, rank 128", "sft", plain, {"lora_r": 128, "lora_alpha": 128, "learning_rate": 1e-4}),
    ("sft text, rank 64, TRL's default modules", "sft", plain, {"lora_r": 64, "lora_target_modules": None}),
    ("sft chat, rank 8", "sft", chat, {"lora_r": 8}),
    ("sft chat, rank 32, dropout", "sft", chat, {"lora_r": 32, "lora_dropout": 0.05}),
    ("sft chat, rank 16, a system turn", "sft", system_chat, {"lora_r": 16}),
    ("sft chat, rank 16, two turns, accumulation", "sft", turns, {"lora_r": 16, "gradient_accumulation_steps": 2}),
    ("sft prompt and completion, rank 16", "sft", completion, {"lora_r": 16}),
    ("sft chat prompt and completion, rank 64", "sft", chat_completion, {"lora_r": 64}),
    ("sft chat, rank 16, 4 bits", "sft", chat, {"lora_r": 16, "load_in_4bit": True}),
    ("sft chat, rank 16, bfloat16, checkpointing", "sft", chat, {"lora_r": 16, "dtype": "bfloat16", "gradient_checkpointing": True}),
    ("sft chat, rank 16, rsLoRA, cosine", "sft", chat, {"lora_r": 16, "use_rslora": True, "lr_scheduler_type": "cosine",
                                                        "learning_rate": 1e-4}),
    ("dpo plain, rank 8, TRL's dropout", "dpo", pairs, {"lora_r": 8, "lora_dropout": None}),
    ("dpo chat, rank 16", "dpo", chat_pairs, {"lora_r": 16}),
    ("dpo implicit prompts, rank 128", "dpo", implicit_pairs, {"lora_r": 128}),
    ("dpo ipo, rank 4", "dpo", chat_pairs, {"lora_r": 4, "loss_type": "ipo"}),
    ("kto plain, rank 16", "kto", marked, {"lora_r": 16}),
    ("cpo plain, rank 16", "cpo", pairs, {"lora_r": 16}),
    ("cpo SimPO, chat, rank 32", "cpo", chat_pairs, {"lora_r": 32, "loss_type": "simpo", "cpo_alpha": 0.0}),
    ("orpo chat, rank 8", "orpo", chat_pairs, {"lora_r": 8}),
    ("reward model chat, rank 16", "reward", chat_pairs, {"lora_r": 16}),
    ("reward model plain, rank 64", "reward", pairs, {"lora_r": 64}),
    ("grpo chat, rank 16", "grpo", prompts, {"lora_r": 16}),
    ("grpo plain, rank 4, top_p 0.8", "grpo", plain_prompts, {"lora_r": 4, "top_p": 0.8}),
    ("grpo chat, rank 128, KL", "grpo", prompts, {"lora_r": 128, "beta": 0.04}),
    ("grpo chat, rank 32, loss_type grpo, TRL's dropout", "grpo", prompts, {"lora_r": 32, "loss_type": "grpo", "lora_dropout": None}),
    ("rloo chat, rank 16", "rloo", prompts, {"lora_r": 16}),
    ("rloo plain, rank 8", "rloo", plain_prompts, {"lora_r": 8}),
    ("online dpo chat, rank 16", "online-dpo", prompts, {"lora_r": 16, "num_generations": None, "max_completion_length": None,
                                                         "max_new_tokens": 96, "per_device_train_batch_size": 4}),
]
BASES = {"sft": SFT, "grpo": POLICY, "rloo": POLICY, "online-dpo": POLICY}
# Facts of these runs and no faults: four steps are few, and a reward for length is one.
TRUE_HERE = re.compile(r"only 4 optimizer steps")


def yaml_value(value):
    return repr(value) if isinstance(value, float) else json.dumps(value)


def run(hone, name, method, rows, changes, cache):
    with tempfile.TemporaryDirectory(prefix="hone-real-") as folder:
        place = pathlib.Path(folder)
        (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
        options = {"model_name_or_path": str(MODEL), **BASES.get(method, PAIR), **changes}
        (place / "run.yaml").write_text("".join(f"{k}: {yaml_value(v)}\n" for k, v in options.items() if v is not None), encoding="utf-8")
        environment = {**os.environ, "NO_COLOR": "1", "XDG_CACHE_HOME": cache}
        begun = time.monotonic()
        done = subprocess.run([hone, method, "--config", "run.yaml"], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S,
                              stdin=subprocess.DEVNULL, env=environment, check=False)
        seconds = time.monotonic() - begun
    said = done.stdout + done.stderr
    wrong = [line for line in said.splitlines() if re.match(r"doctor .*\b(warn|FAIL)\b|warning\b", line) and not TRUE_HERE.search(line)]
    if done.returncode != 0:
        wrong.append(f"exit {done.returncode}: {said.strip().splitlines()[-1] if said.strip() else ''}")
    print(f"{'not ok' if wrong else 'ok'} healthy on SmolLM2: {name} ({seconds:.0f} s)", flush=True)
    for line in wrong:
        print("  " + line, flush=True)
    return wrong, said


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", default=str(HERE.parent.parent / "build" / "hone"))
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("only", nargs="*", help="words that a run's name contains; default all")
    args = parser.parse_args()
    if not MODEL.exists():
        print(f"skip healthy runs on SmolLM2: {MODEL} is not there (./test fetches it)")
        return 0
    chosen = [one for one in RUNS if not args.only or any(word in one[0] for word in args.only)]
    found = {}
    with tempfile.TemporaryDirectory(prefix="hone-real-cache-") as cache:
        for name, method, rows, changes in chosen:
            wrong, said = run(str(pathlib.Path(args.hone).resolve()), name, method, rows, changes, cache)
            if args.verbose:
                print(said)
            for line in wrong:
                code = re.search(r"[A-Z]+-\d\d", line)
                found.setdefault(code.group() if code else line.split()[0], []).append(name)
    counts = ", ".join(f"{code} in {len(names)}" for code, names in sorted(found.items()))
    print(f"# {len(chosen)} healthy runs; wrong warnings: {counts or 'none'}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
