"""More runs without a fault: what users have, and what looks odd and is none. None of them may warn where `quiet` is set."""
import json
import shutil

from fault import Cases
import scene
import staging

CASES = Cases()
TEXT_OF = "def text(c):\n    return c if isinstance(c, str) else c[0]['content']\n\n"
MATH = ("def math(completions, task, answer, **_):\n"
        "    return [float(a in text(c)) if t == 'math' else None for c, t, a in zip(completions, task, answer)]\n")
CODE = ("def code(completions, task, **_):\n"
        "    return [float(len(text(c)) % 97) if t == 'code' else None for c, t in zip(completions, task)]\n")


def tasks(names, count=60, column="task"):
    """Rows of several tasks in turn."""
    return [{**row, column: names[i % len(names)]} for i, row in enumerate(scene.prompt_rows(count))]


def policy(s, rows, functions, names, **changes):
    s.python(TEXT_OF + functions)
    s.policy(rows, reward_funcs=[f"rewards.py:{name}" for name in names], **changes)


# ---- several tasks, with None for those of the others
for _count in (16, 24, 32, 100):
    @CASES.healthy(f"grpo: {_count} rows of two tasks in turn, None for the other task's rewards", quiet=True, slow=_count != 16)
    def two_tasks(s, count=_count):
        policy(s, tasks(["math", "code"], count), MATH + CODE, ["math", "code"], reward_weights=[1.0, 0.5])


@CASES.healthy("grpo: three tasks in turn, of which one has no reward", quiet=True)
def third_task(s):
    policy(s, tasks(["math", "code", "poem"]), MATH + CODE, ["math", "code"], reward_weights=[1.0, 0.5])


@CASES.healthy("grpo: four tasks in blocks, one of them rare", quiet=True, slow=True)
def blocks(s):
    rows = [{**row, "task": "math" if i < 40 else "code" if i < 58 else "rare"} for i, row in enumerate(scene.prompt_rows(60))]
    policy(s, rows, MATH + CODE, ["math", "code"])


@CASES.healthy("grpo: tasks in turn that a column of numbers tells", quiet=True, slow=True)
def by_number(s):
    functions = "".join(f"def t{k}(completions, n, **_):\n"
                        f"    return [float(sum(map(ord, text(c))) % 7) if i % 3 == {k} else None for c, i in zip(completions, n)]\n" for k in range(3))
    policy(s, [{**row, "n": i} for i, row in enumerate(scene.prompt_rows(60))], functions, ["t0", "t1", "t2"])


@CASES.healthy("grpo: every second row earns the same whatever is said")  # and so half of the groups are dead
def half_is_constant(s):
    policy(s, [{**row, "n": i} for i, row in enumerate(scene.prompt_rows(60))],
           "def part(completions, n, **_):\n"
           "    return [1.0 if i % 2 == 0 else float(len(text(c)) % 97) for c, i in zip(completions, n)]\n", ["part"])


@CASES.healthy("grpo: answers of one task only, the other's are null", quiet=True)
def null_answers(s):
    rows = [{**row, "answer": row["answer"] if row["task"] == "math" else None} for row in tasks(["math", "code"])]
    policy(s, rows, "def math(completions, task, answer, **_):\n"
                    "    return [float(a in text(c)) if a is not None else None for c, a in zip(completions, answer)]\n" + CODE,
           ["math", "code"])


@CASES.healthy("rloo: two tasks in turn", quiet=True, slow=True)
def rloo_tasks(s):
    policy(s, tasks(["math", "code"]), MATH + CODE, ["math", "code"], method="rloo")


@CASES.healthy("grpo: an exact answer and a format, in Python", quiet=True)
def answer_and_format(s):
    policy(s, None, "def right(completions, answer, **_):\n    return [float(text(c).strip() == a) for c, a in zip(completions, answer)]\n"
                    "def short(completions, **_):\n    return [0.5 if len(text(c)) < 5 else 0.0 for c in completions]\n", ["right", "short"])


@CASES.healthy("grpo: a penalty, whose best score is 0", quiet=True, slow=True)
def penalty(s):
    policy(s, None, "def off(completions, answer, **_):\n"
                    "    def of(found, wanted):\n"
                    "        found = found.strip()\n"
                    "        return -min(9.0, abs(int(found) - int(wanted))) if found.isdigit() and len(found) < 4 else -9.0\n"
                    "    return [of(text(c), a) for c, a in zip(completions, answer)]\n", ["off"])


@CASES.healthy("grpo: a trained reward model as the reward", quiet=False, slow=True,
               before=(("reward", "--config", "reward.yaml"),))
def reward_model(s):
    s.rows(scene.preference_rows(), "pairs.jsonl")
    base = {**scene.SFT, "model_name_or_path": str(scene.FIXTURES / "llama"), "dataset_name": "pairs.jsonl", "output_dir": "rm", "max_steps": 8}
    s.path("reward.yaml").write_text("".join(f"{k}: {json.dumps(v)}\n" for k, v in base.items()))
    s.policy(reward_funcs=["rm"])


# ---- heads: tied, and of their own
def untied(s, name="model", family=None):
    """A head of its own: a copy of the embedding that was trained a little."""
    file = s.model(name, family) / staging.WEIGHTS
    header, body = staging.read_safetensors(file)
    begin, end = header["model.embed_tokens.weight"]["data_offsets"]
    raw = bytearray(body[begin:end])
    for i in range(0, len(raw), 64):
        raw[i] ^= 1
    header["lm_head.weight"] = {**header["model.embed_tokens.weight"], "data_offsets": [len(body), len(body) + len(raw)]}
    staging.write_safetensors(file, header, body + bytes(raw))
    s.edit_json(f"{name}/config.json", tie_word_embeddings=False)


def reward_of(s, **changes):
    s.dpo(method="reward", **{"learning_rate": 1e-4, **changes})


@CASES.healthy("reward: a tied head", quiet=True)
def reward_tied(s):
    reward_of(s)


@CASES.healthy("reward: a head of its own", quiet=True)
def reward_untied(s):
    untied(s)
    reward_of(s)


@CASES.healthy("reward: a head of its own, the whole model", quiet=True, slow=True)
def reward_full(s):
    untied(s)
    reward_of(s, use_peft=False, learning_rate=1e-5, lora_r=None, lora_dropout=None, lora_target_modules=None)


@CASES.healthy("reward: a head of its own, 4 bits", family="qwen2", slow=True)
def reward_four_bits(s):
    untied(s)
    reward_of(s, load_in_4bit=True)


for _method in ("sft", "dpo", "cpo", "orpo", "grpo", "rloo"):
    @CASES.healthy(f"{_method}: a head of its own", quiet=False, slow=_method not in ("sft", "dpo", "grpo"))
    def other_untied(s, method=_method):
        untied(s)
        if method == "sft":
            s.sft()
        elif method in ("grpo", "rloo"):
            s.policy(method=method)
        else:
            s.dpo(method=method)


# ---- KTO
def kto_rows(count=60, label=None):
    return [{"prompt": row["prompt"], "completion": row["chosen" if i % 2 else "rejected"], "label": bool(i % 2) if label is None else label}
            for i, row in enumerate(scene.preference_rows(count))]


@CASES.healthy("kto: right and wrong answers")
def kto(s):
    s.dpo(kto_rows(), method="kto")


@CASES.healthy("kto: one kind of label", slow=True)
def kto_one_kind(s):
    s.dpo(kto_rows(label=True), method="kto")


# ---- rank and alpha
for _name, _options in (("rank 1, alpha 32", dict(lora_r=1, lora_alpha=32)), ("rank 64, alpha 16", dict(lora_r=64, lora_alpha=16)),
                        ("rank 128, alpha 256", dict(lora_r=128, lora_alpha=256)), ("DoRA", dict(use_dora=True)),
                        ("rslora of rank 64, alpha 16", dict(lora_r=64, lora_alpha=16, use_rslora=True))):
    @CASES.healthy(f"sft: {_name}", quiet=True, slow=_name != "rank 1, alpha 32")
    def ranks(s, options=_options):
        s.sft(learning_rate=2e-4, **options)


@CASES.healthy("sft: the whole model", quiet=True)
def full(s):
    s.sft(use_peft=False, learning_rate=2e-5, lora_r=None, lora_dropout=None, lora_target_modules=None)


# ---- models
@CASES.healthy("sft: a longrope of 32 positions")
def longrope(s):
    source = scene.SOURCE / "tests" / "fixtures" / "parity" / "tiny_phi3_long"
    shutil.copytree(source, s.path("model"), ignore=shutil.ignore_patterns("adapter*", "golden*"))
    rope = json.loads((source / "config.json").read_text())["rope_scaling"]
    s.edit_json("model/config.json", max_position_embeddings=32, original_max_position_embeddings=32,
                rope_scaling={**rope, "original_max_position_embeddings": 32})
    s.sft([{"text": f"{a} + {b} = {a + b}"} for a, b in scene.sums(60)], max_length=32, learning_rate=2e-4)


@CASES.healthy("grpo: a longrope of 32 positions", slow=True)
def longrope_policy(s):
    source = scene.SOURCE / "tests" / "fixtures" / "parity" / "tiny_phi3_long"
    shutil.copytree(source, s.path("model"), ignore=shutil.ignore_patterns("adapter*", "golden*"))
    rope = json.loads((source / "config.json").read_text())["rope_scaling"]
    s.edit_json("model/config.json", max_position_embeddings=32, original_max_position_embeddings=32,
                rope_scaling={**rope, "original_max_position_embeddings": 32})
    s.policy([{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a, b in scene.sums(60)], reward_funcs=["length(target=4)"], max_completion_length=6)


# ---- rows
@CASES.healthy("sft: a system prompt before each conversation", quiet=True)
def system(s):
    rows = scene.message_rows()
    for row in rows:
        row["messages"].insert(0, {"role": "system", "content": "You add numbers."})
    s.sft(rows, learning_rate=1e-4)


@CASES.healthy("sft: four rows, several epochs", slow=True)
def few_rows(s):
    s.sft(scene.text_rows(4), per_device_train_batch_size=2)


@CASES.healthy("sft: a few rows that are much longer", slow=True)
def long_rows(s):
    rows = scene.text_rows()
    for i in (7, 31):
        rows[i] = {"text": " ".join(row["text"] for row in scene.text_rows(30))}
    s.sft(rows, max_length=512)


@CASES.healthy("sft: two sources in turn, packed, with evaluation", slow=True)
def sources(s):
    s.rows(scene.text_rows(72)[60:], "eval.jsonl")
    s.sft([{**row, "source": "ab"[i % 2]} for i, row in enumerate(scene.text_rows())], packing=True, max_length=64, num_train_epochs=8,
          eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=12)


@CASES.healthy("dpo: a rate and beta as published", quiet=False)
def dpo_published(s):
    s.dpo(learning_rate=5e-6, beta=0.1, lora_r=16, lora_alpha=16)


@CASES.healthy("dpo: a few answers that are equal to another row's", slow=True)
def dpo_shared(s):
    rows = scene.preference_rows()
    rows[3]["chosen"] = rows[4]["chosen"]
    s.dpo(rows)


@CASES.healthy("online dpo: two tasks in turn", slow=True)
def online(s):
    policy(s, tasks(["math", "code"]), MATH + CODE, ["math", "code"], method="online-dpo", num_generations=None,
           max_completion_length=None, max_new_tokens=12)
