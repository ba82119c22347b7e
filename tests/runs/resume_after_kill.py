#!/usr/bin/env python3
"""kill -9 at any moment, resume, and the end is bit-equal to the run that nobody interrupted.

A tiny model trains with dropout, accumulation and packing, saving every step. One run goes through; another is killed again and
again at moments spread over its life (while it reads, steps, stages a checkpoint, renames it, rotates old ones) and resumed
each time. At the end: the adapter, AdamW's moments, the logged losses and metrics.jsonl's losses are equal to the byte.

Prints `ok NAME` or `not ok NAME` a check. usage: resume_after_kill.py [--kills N] [--hone PROGRAM]
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = SOURCE / "tests/fixtures/parity"
STEPS = 60
TIMES = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "performance")


def command(hone, output, *more):
    options = {"model_name_or_path": FIXTURES / "tiny_llama", "dataset_name": FIXTURES / "sft/text.jsonl",
               "output_dir": output, "use_peft": "true", "lora_r": 4, "lora_dropout": 0.1,
               "lora_target_modules": "all-linear", "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2,
               "max_length": 128, "packing": "true", "max_steps": STEPS, "learning_rate": 0.01, "warmup_steps": 5,
               "lr_scheduler_type": "cosine", "logging_steps": 3, "save_steps": 1, "save_total_limit": 2, "threads": 1}
    words = [str(hone), "sft"]
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    return words + list(more)


def run(words, kill_after=None):
    """Exit code; the process is killed with SIGKILL after `kill_after` seconds if it still runs."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    return process.returncode, output


def timeless(entry):
    return {key: value for key, value in entry.items() if key not in TIMES}


def results(folder):
    """What must not differ, name -> content."""
    state = json.loads((folder / "trainer_state.json").read_text())
    metrics = [timeless(json.loads(line)) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = folder / f"checkpoint-{STEPS}"
    return {"adapter": (folder / "adapter_model.safetensors").read_bytes(),
            "moments": (last / "optimizer.safetensors").read_bytes(),
            "checkpointed adapter": (last / "adapter_model.safetensors").read_bytes(),
            "log history": [timeless(entry) for entry in state["log_history"]],
            "metrics.jsonl": metrics,
            "files": sorted(path.name for path in folder.iterdir())}


def report(name, passed, why=""):
    print(f"{'ok' if passed else 'not ok'} resume after kill: {name}" + ("" if passed else f"\n  {why}"), flush=True)
    return passed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    kills, hone = parser.parse_args().kills, parser.parse_args().hone.resolve()
    passed = True
    with tempfile.TemporaryDirectory(prefix="hone_resume_") as temporary:
        straight, killed = pathlib.Path(temporary) / "straight", pathlib.Path(temporary) / "killed"
        started = time.monotonic()
        code, output = run(command(hone, straight))
        if code != 0:
            report("the uninterrupted run ends", False, output)
            return 1
        life = time.monotonic() - started
        survived = 0
        for kill in range(kills):
            resume = any(killed.glob("checkpoint-*/hone_state.json"))
            if killed.exists() and not resume:
                shutil.rmtree(killed)  # killed before the first checkpoint: a fresh start is what a user does
            # Moments spread over start, steps and saves, never twice the same.
            moment = life * (0.15 + 0.6 * ((kill * 0.6180339887) % 1.0))
            code, output = run(command(hone, killed, *(["--resume_from_checkpoint", "true"] if resume else [])), moment)
            if code == 0 and survived >= min(2, kills):
                break
            if code == 0:  # faster than the uninterrupted run, whose machine was busier: start again, and kill sooner
                life /= 2
                shutil.rmtree(killed)
                continue
            survived += code == -9
            if code != -9:
                passed = report(f"kill {kill + 1} at {moment:.2f} s", False, output) and passed
        if not (killed / "adapter_model.safetensors").exists():
            resume = any(killed.glob("checkpoint-*/hone_state.json"))
            code, output = run(command(hone, killed, *(["--resume_from_checkpoint", "true"] if resume else [])))
            passed = report("the run that was killed comes to its end", code == 0, output) and passed
        passed = report(f"{survived} kills were kills", survived >= min(2, kills), "the run ended before it was killed") and passed
        expected, found = results(straight), results(killed)
        for name, content in expected.items():
            same = content == found[name]
            why = "" if same else f"{str(content)[:300]}\n  against\n  {str(found[name])[:300]}"
            passed = report(f"{name} bit-equal", same, why) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
