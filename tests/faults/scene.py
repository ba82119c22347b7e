"""One tiny run in a folder of its own: models, rows, YAML and what a case spoils in them. Python's own library alone."""
import json
import pathlib
import shutil
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
FIXTURES = SOURCE / "tests" / "fixtures" / "faults"
sys.path.insert(0, str(HERE.parent / "runs"))
import staging  # noqa: E402 (the golden runs' own helpers)

SFT = {"use_peft": True, "lora_r": 8, "lora_dropout": 0.0, "lora_target_modules": "all-linear", "learning_rate": 1e-3, "max_steps": 24,
       "per_device_train_batch_size": 4, "logging_steps": 1, "save_strategy": "no", "report_to": "none", "threads": 1,
       "output_dir": "out", "dataset_name": "rows.jsonl"}
# The rewards of a group differ often enough, and completions end: the fixture's models were trained on these sums.
POLICY = {**SFT, "learning_rate": 1e-4, "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 12,
          "reward_funcs": ["exact_match(column=answer)"]}


def sums(count):
    """One-digit sums, each another pair: (a, b)."""
    return [((i * 7) % 10, (i * 3 + i // 10) % 10) for i in range(count)]


def text_rows(count=60):
    return [{"text": f"What is {a} + {b}? {a + b}"} for a, b in sums(count)]


def message_rows(count=60):
    return [{"messages": [{"role": "user", "content": f"What is {a} + {b}?"},
                          {"role": "assistant", "content": str(a + b)}]} for a, b in sums(count)]


def pair_rows(count=60):
    return [{"prompt": f"What is {a} + {b}?", "completion": f" {a + b}"} for a, b in sums(count)]


def prompt_rows(count=60):
    return [{"prompt": [{"role": "user", "content": f"What is {a} + {b}?"}], "answer": str(a + b)} for a, b in sums(count)]


def preference_rows(count=60):
    return [{"prompt": f"What is {a} + {b}?", "chosen": f" {a + b}", "rejected": f" {(a + b + 1 + a % 3)}"} for a, b in sums(count)]


def yaml_value(value):
    return json.dumps(value) if not isinstance(value, float) else repr(value)


class Scene:
    """Where a case runs. A case calls sft() or policy() once, and spoils files before or after."""

    def __init__(self, folder, family="llama"):
        self.folder = pathlib.Path(folder)
        self.method = "sft"
        self.family = family
        self.options = {}

    def path(self, name):
        return self.folder / name

    def rows(self, rows, name="rows.jsonl"):
        self.path(name).write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")

    def model(self, name="model", family=None):
        """A copy of the tiny model, to be spoiled."""
        out = self.path(name)
        if not out.exists():
            shutil.copytree(FIXTURES / (family or self.family), out)
        return out

    def edit_json(self, name, **changes):
        staging.edit_json(self.path(name), **changes)

    def tensor(self, name, change, folder="model"):
        """`change(list of float) -> list` on one bf16 tensor of the copied model."""
        file = self.model(folder) / staging.WEIGHTS
        header, body = staging.read_safetensors(file)
        begin, end = header[name]["data_offsets"]
        raw = body[begin:end]
        values = [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
        spoiled = b"".join(struct.pack("<f", v)[2:] for v in change(values))
        staging.write_safetensors(file, header, body[:begin] + spoiled + body[end:])

    def python(self, text, name="rewards.py"):
        self.path(name).write_text(text, encoding="utf-8")

    def write(self, method, base, changes):
        self.method = method
        self.options = {"model_name_or_path": "model" if self.path("model").exists() else str(FIXTURES / self.family), **base,
                        **changes}
        self.options = {k: v for k, v in self.options.items() if v is not None}
        lines = [f"{name}: {yaml_value(value)}" for name, value in self.options.items()]
        self.path("run.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def add(self, line):
        """To the YAML, as it stands."""
        with self.path("run.yaml").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def sft(self, rows=None, **changes):
        self.rows(text_rows() if rows is None else rows)
        self.write("sft", SFT, changes)

    def dpo(self, rows=None, method="dpo", **changes):
        self.rows(preference_rows() if rows is None else rows)
        self.write(method, SFT, changes)

    def policy(self, rows=None, method="grpo", **changes):
        self.rows(prompt_rows() if rows is None else rows)
        self.write(method, POLICY, changes)
