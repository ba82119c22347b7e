"""Tiny runs of SFT, GRPO and DPO that save often, and what has to be equal where one was interrupted."""
import json
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "faults"))
import scene  # noqa: E402 (rows of sums, and the models that were trained on them)

COMMON = {"model_name_or_path": SOURCE / "tests/fixtures/faults/llama", "use_peft": "true", "lora_r": 4,
          "lora_target_modules": "all-linear", "bf16": "false", "threads": 1, "logging_steps": 1, "warmup_steps": 2,
          "lr_scheduler_type": "cosine", "report_to": "none", "skip_doctor": "true",
          "report_page": "false"}  # it holds times of day, and how often it is written depends on them
OPTIONS = {
    "sft": {"lora_dropout": 0.1, "learning_rate": 0.01, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2,
            "packing": "true", "max_length": 64, "max_steps": 12, "save_steps": 2, "eval_strategy": "steps", "eval_steps": 4},
    # A generation batch is used for two steps, and a checkpoint lies between them.
    "grpo": {"learning_rate": 0.001, "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 8,
             "steps_per_generation": 2, "max_steps": 8, "save_steps": 1, "log_completions": "true", "dump_rollouts": "true",
             "reward_funcs": "exact_match(column=answer)", "beta": 0.1},
    "dpo": {"learning_rate": 0.01, "per_device_train_batch_size": 4, "max_steps": 10, "save_steps": 2, "precompute_ref_log_probs": "true",
            "eval_strategy": "steps", "eval_steps": 5},
}
ROWS = {"sft": scene.text_rows, "grpo": scene.prompt_rows, "dpo": scene.preference_rows}
# What a checkpoint's files hold besides: this run's own options and checksums.
OWN_OPTIONS = ("plan.yaml", "hone_state.json")


def quick_folder():
    """Where temporary folders go: in memory where there is room, because a run here is mostly fsync. None: where the system says."""
    memory = pathlib.Path("/dev/shm")
    has_room = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30
    return str(memory) if has_room else None


class SmallRun:
    """One method with its rows below `root`."""

    def __init__(self, hone, method, root):
        self.hone, self.method = pathlib.Path(hone).resolve(), method
        self.rows, self.eval_rows = root / f"{method}.jsonl", root / f"{method}_eval.jsonl"
        rows = ROWS[method](40)
        self.rows.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        self.eval_rows.write_text("".join(json.dumps(row) + "\n" for row in rows[:4]), encoding="utf-8")
        self.steps, self.save_steps = OPTIONS[method]["max_steps"], OPTIONS[method]["save_steps"]

    def words(self, output, keep, resume=None, **changes):
        options = {**COMMON, **OPTIONS[self.method], "dataset_name": self.rows, "output_dir": output, "save_total_limit": keep, **changes}
        if "eval_steps" in options:
            options["eval_dataset"] = self.eval_rows
        if resume:
            options["resume_from_checkpoint"] = resume
        words = [str(self.hone), self.method]
        for name, value in options.items():
            words += [f"--{name}", str(value)]
        return words


def is_time(key):
    return key == "performance" or key.endswith(("_runtime", "_per_second", "_time", "_seconds"))


def timeless(value):
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if not is_time(key)}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def read_lines(path):
    return [timeless(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def content(path):
    """What must not differ of a file of a run."""
    if path.name == "trainer_state.json":
        return timeless(json.loads(path.read_text(encoding="utf-8")))
    if path.name == "hone_state.json":
        return timeless(json.loads(path.read_text(encoding="utf-8"))["run"])
    if path.name == "metrics.jsonl":
        return read_lines(path)
    if path.name == "hone_files.json":  # sizes and checksums: of these two they hold times, and how the run was started
        prints = json.loads(path.read_text(encoding="utf-8"))["result"]
        return {name: entry for name, entry in prints.items() if name not in ("plan.yaml", "trainer_state.json")}
    return path.read_bytes()


def checkpoint_content(folder):
    """Files of a whole checkpoint by name; {"damaged": why} of one that does not parse."""
    try:
        return {path.name: content(path) for path in sorted(folder.iterdir())
                if path.name not in ("plan.yaml", "trainer_state.json")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {"damaged": repr(error)}


def steps_of(folder):
    """Steps of its folders named checkpoint-N."""
    names = [path.name for path in folder.glob("checkpoint-*") if path.is_dir()] if folder.is_dir() else []
    return sorted(int(name[11:]) for name in names if name[11:].isdigit())


def results(folder):
    """Every file below `folder`, name -> what must not differ. plan.yaml names the checkpoint that was resumed."""
    out = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or path.name == "plan.yaml":
            out[name] = "there"
            continue
        try:
            out[name] = content(path)
        except (OSError, ValueError, KeyError, TypeError) as error:
            out[name] = f"damaged: {error!r}"
    return out


def difference(expected, found):
    """A sentence about the first file that differs, or "" ."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} is left over"
        if expected[name] != found[name]:
            if isinstance(expected[name], list) and isinstance(found[name], list):
                for i, (a, b) in enumerate(zip(expected[name], found[name])):
                    if a != b:
                        return f"{name} differs in record {i}:\n    {str(a)[:400]}\n    {str(b)[:400]}"
                return f"{name} has {len(found[name])} records instead of {len(expected[name])}"
            if isinstance(expected[name], bytes) and isinstance(found[name], bytes):
                a, b = expected[name].split(b"\n"), found[name].split(b"\n")
                line = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                return (f"{name}: {len(a)} lines against {len(b)}, the first that differs is {line + 1}:\n    "
                        f"{a[line:line + 1]!r:.300}\n    {b[line:line + 1]!r:.300}")
            return f"{name} differs: {str(expected[name])[:200]} against {str(found[name])[:200]}"
    return ""
