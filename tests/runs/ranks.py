#!/usr/bin/env python3
"""Several processes train what one trains: the same bytes of adapter and metrics, for every method, and faults are named.

Tiny models in fp32 and bf16, started as torchrun and others start them: by environment variables. W ranks with accumulation A are
compared with one process with accumulation W x A.

Prints `ok NAME`, `not ok NAME` or `skip NAME` a check. usage: ranks.py [--slow] [--only WORD] [--hone PROGRAM]
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODEL = SOURCE / "tests/fixtures/parity/tiny_llama"
TEACHER = SOURCE / "tests/fixtures/parity/tiny_gemma2"
TIMES = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "performance", "eval_runtime",
         "eval_samples_per_second", "eval_steps_per_second")
WORDS = "the a sum of two small numbers is seven nine green blue river stone light house walks runs and then".split()
COMMON = {"model_name_or_path": MODEL, "use_peft": "true", "lora_r": 4, "lora_target_modules": "all-linear", "lora_dropout": 0.1,
          "learning_rate": 0.01, "max_steps": 3, "logging_steps": 1, "save_strategy": "no", "threads": 1, "report_page": "false",
          "per_device_train_batch_size": 2, "per_device_eval_batch_size": 2, "eval_strategy": "steps", "eval_steps": 2,
          "max_length": 96, "skip_doctor": "true"}
SAMPLED = {"reward_funcs": 'regex(pattern="e", column=answer)', "num_generations": 2, "max_completion_length": 12, "temperature": 1.0}
SAMPLES = {"sample_prompts": 3, "sample_max_new_tokens": 8}
FULL = {"use_peft": "false", "lora_r": None, "lora_target_modules": None, "lora_dropout": None, "learning_rate": 0.001}
DISTILLED = {"teacher_model_name_or_path": TEACHER, "max_completion_length": 12, "beta": 0.5}
# name: method, data, options, accumulation of 8 ranks' worth of work on one process
METHODS = {
    "sft": ("sft", "texts", {"packing": "true"}),
    "sft in fp32": ("sft", "texts", {"bf16": "false", "dtype": "float32"}),
    "sft of all weights": ("sft", "texts", {**FULL, "bf16": "false", "dtype": "float32"}),
    "dpo": ("dpo", "pairs", {}),
    "dpo with a reference computed before": ("dpo", "pairs", {"precompute_ref_log_probs": "true"}),
    "kto": ("kto", "marked", {}),
    "cpo": ("cpo", "pairs", {}),
    "orpo": ("orpo", "pairs", {}),
    "reward": ("reward", "pairs", {}),
    "grpo": ("grpo", "prompts", {**SAMPLED, "beta": 0.1, "lora_dropout": 0.0}),
    "grpo, two iterations": ("grpo", "prompts", {**SAMPLED, "num_iterations": 2, "top_entropy_quantile": 0.5}),
    # each step has the same prompts, of which a rank knows what it has sampled itself
    "grpo with drafts": ("grpo", "few", {**SAMPLED, "drafts": "auto", "max_completion_length": 24}),
    "rloo": ("rloo", "prompts", SAMPLED),
    "sft with samples and rewards": ("sft", "answers", {**SAMPLES, "eval_reward_funcs": 'regex(pattern="e", column=completion)'}),
    "grpo with samples and rewards": ("grpo", "prompts", {**SAMPLED, "filter_groups": "true", "max_num_gen_batches": 3, "sample_prompts": 2, "eval_reward_funcs": SAMPLED["reward_funcs"]}),
    # a recipe of Python users, with its file of DeepSpeed as it is
    "grpo with gradient checkpointing and zero2.json": ("grpo", "prompts", {
        **SAMPLED, "gradient_checkpointing": "true", "report_to": "none",
        "deepspeed": SOURCE / "tests/fixtures/config/sharding/zero2.json"}),
    "online dpo": ("online-dpo", "prompts", {"reward_funcs": SAMPLED["reward_funcs"], "max_new_tokens": 12, "beta": 0.1}),
    "distill": ("distill", "prompts", DISTILLED),
    # GKD: micro-batches of the model's completions and of the data's, and of the teacher's
    "distill with given completions": ("distill", "answers", {**DISTILLED, "lmbda": 0.5}),
    "distill with the teacher's completions": ("distill", "prompts", {**DISTILLED, "lmbda": 0.5, "seq_kd": "true"}),
}


def text(rng, least=3, most=20):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def write_data(folder):
    rng = random.Random(7)
    kinds = {"texts": lambda: {"text": text(rng)},
             "pairs": lambda: {"prompt": text(rng), "chosen": " " + text(rng), "rejected": " " + text(rng)},
             "marked": lambda: {"prompt": text(rng), "completion": " " + text(rng), "label": rng.random() < 0.5},
             "answers": lambda: {"prompt": text(rng), "completion": " " + text(rng)},
             "prompts": lambda: {"prompt": text(rng), "answer": "e"},
             "few": lambda: {"prompt": text(rng), "answer": "e"}}
    for kind, row in kinds.items():
        for name, count in (("train", 4 if kind == "few" else 96), ("eval", 11)):
            (folder / f"{kind}-{name}.jsonl").write_text("".join(json.dumps(row()) + "\n" for _ in range(count)))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Runs:
    def __init__(self, hone, folder, slow=False):
        self.hone, self.folder, self.slow = str(hone), folder, slow

    def words(self, case, output, accumulation, more=()):
        method, data, options = METHODS[case]
        all_options = {**COMMON, "dataset_name": self.folder / f"{data}-train.jsonl", "eval_dataset": self.folder / f"{data}-eval.jsonl",
                       **options, "gradient_accumulation_steps": accumulation, "output_dir": output, **dict(more)}
        if method in ("grpo", "rloo", "online-dpo", "distill"):
            all_options.pop("max_length")
        words = [self.hone, method]
        for name, value in all_options.items():
            words += [f"--{name}", str(value)] if value is not None else []
        return words

    def start(self, words, ranks, environment=None):
        """One process a rank; `words` may be a list for each."""
        port = free_port()
        out = []
        for rank in range(ranks):
            env = {**os.environ, "OMP_NUM_THREADS": "1"}
            if ranks > 1:
                env |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
                        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            env |= environment or {}
            own = words[rank] if isinstance(words[0], list) else words
            out.append(subprocess.Popen(own, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return out

    def start_long(self, name, ranks, more=()):
        """A run that would go on for long, in the folder `name`, when it is a second into its steps."""
        words = self.words("sft", self.folder / name, 1, {"max_steps": 100000, "logging_steps": 1000, **dict(more)}.items())
        processes = self.start(words, ranks)
        deadline = time.monotonic() + 60
        while not (self.folder / name / "plan.yaml").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)
        return processes

    def run(self, words, ranks):
        processes = self.start(words, ranks)
        texts = [one.communicate(timeout=300)[0] for one in processes]
        return [one.returncode for one in processes], texts


def timeless(line):
    return {key: value for key, value in json.loads(line).items() if key not in TIMES}


def results(folder):
    weights = [path.name for path in sorted(folder.glob("*.safetensors")) if path.name.startswith(("adapter", "model"))]
    samples = folder / "samples.jsonl"
    return {"samples": samples.read_text() if samples.exists() else "",
            "weights": b"".join((folder / name).read_bytes() for name in weights),
            "metrics": [timeless(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]}


def report(name, passed, why=""):
    print(f"{'ok' if passed else 'not ok'} ranks: {name}" + ("" if passed else f"\n  {why}"), flush=True)
    return passed


def close(a, b, bound):
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= bound * max(1.0, abs(a))
    return a == b


def difference(one, other, bound):
    """Empty: nothing."""
    if not bound and one["weights"] != other["weights"]:
        return "the weights differ"
    if not bound and one["samples"] != other["samples"]:
        return "the samples differ"
    if len(one["metrics"]) != len(other["metrics"]):
        return f"{len(one['metrics'])} and {len(other['metrics'])} lines of metrics"
    for a, b in zip(one["metrics"], other["metrics"]):
        for key in sorted(set(a) | set(b)):
            if not close(a.get(key), b.get(key), bound):
                return f"step {a.get('step')}: {key} {a.get(key)} and {b.get(key)}"
    return ""


def check_equal(runs, case, sizes):
    most = max(sizes)
    first = None
    mixes = METHODS[case][2].get("lmbda")
    sizes = sizes[:2] if "samples" in case else sizes
    for ranks in sizes:
        output = runs.folder / f"{case.replace(' ', '_').replace(',', '')}-{ranks}"
        codes, texts = runs.run(runs.words(case, output, most // ranks), ranks)
        if any(codes):
            return report(case, False, f"{ranks} ranks ended with {codes}: " + "\n".join(texts)[-2000:])
        found = results(output)
        first = first or found
        if mixes and not any(0 < line.get("sampled_fraction", 0) < 1 for line in found["metrics"]):
            return report(case, False, "no step has micro-batches of both kinds")
        if why := difference(first, found, 1e-5 if "all weights" in case else 0):
            return report(case, False, f"1 and {ranks} ranks: {why}")
    return report(f"{case}: {', '.join(map(str, sizes))} ranks, " + ("within 1e-5" if "all weights" in case else "equal bytes"), True)


def check_resume(runs):
    return all([check_resume_of(runs, case) for case in ("grpo", "distill with given completions")])


def check_resume_of(runs, case):
    """2 ranks stop after 2 of 4 steps; 4 ranks go on: the end is that of one process that was never stopped."""
    name = case.replace(" ", "_")
    whole, halves = runs.folder / f"whole-{name}", runs.folder / f"halves-{name}"
    codes, texts = runs.run(runs.words(case, whole, 4, {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}.items()), 1)
    saving = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    first, first_texts = runs.run(runs.words(case, halves, 2, saving.items()), 2)
    # what a run that was killed after step 2 leaves
    for path in (halves / "checkpoint-4").iterdir():
        path.unlink()
    (halves / "checkpoint-4").rmdir()
    second, second_texts = runs.run(runs.words(case, halves, 1, {**saving, "resume_from_checkpoint": "true"}.items()), 4)
    if any(codes + first + second):
        return report(f"{case}: resume on another number of ranks", False, "\n".join(texts + first_texts + second_texts)[-2000:])
    why = difference(results(whole), results(halves), 0)
    return report(f"{case}: resume on another number of ranks", not why, why)


def check_killed(runs):
    before = set(os.listdir("/dev/shm"))
    processes = runs.start_long("killed", 3)
    processes[1].send_signal(signal.SIGKILL)
    try:
        texts = [one.communicate(timeout=60)[0] for one in processes]
    except subprocess.TimeoutExpired:
        for one in processes:
            one.kill()
        return report("a rank that is killed", False, "the others hang")
    codes = [one.returncode for one in processes]
    named = all("rank 1" in texts[rank] for rank in (0, 2))
    left = {name for name in set(os.listdir("/dev/shm")) - before if not os.path.isdir(f"/dev/shm/{name}")}  # folders are other tests'
    return report("a rank that is killed is named, the exit code says to start again, and nothing is left in /dev/shm",
                  codes == [75, -9, 75] and named and not left, f"{codes} {left}: " + texts[0][-1500:])


def check_stopped(runs):
    processes = runs.start_long("stopped", 2)
    processes[1].send_signal(signal.SIGTERM)  # of one rank: all stop
    texts = [one.communicate(timeout=60)[0] for one in processes]
    codes = [one.returncode for one in processes]
    saved = list((runs.folder / "stopped").glob("checkpoint-*"))
    return report("SIGTERM of one rank saves and ends all", codes == [130, 130] and len(saved) == 1, f"{codes} {saved}: {texts[0][-1500:]}")


def check_time_out(runs):
    processes = runs.start_long("time_out", 2, {"ddp_timeout": 2}.items())
    processes[1].send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    try:
        said = processes[0].communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        processes[0].kill()
        said = "rank 0 hangs"
    processes[1].kill()
    processes[1].communicate()
    good = processes[0].returncode == 75 and "did not come within 2 s" in said and "stopped" in said and time.monotonic() - begin < 40
    return report("ddp_timeout is the time that a stopped rank has", good, said[-1500:])


def check_option_error(runs):
    output = runs.folder / "option_error"
    words = [runs.words("sft", output, 1), runs.words("sft", output, 1, {"learning_rate": "fast"}.items())]
    codes, texts = runs.run(words, 2)
    good = codes == [2, 2] and all("learning_rate" in text and "fast" in text for text in texts)
    return report("a mistake in one rank's options is told by the others", good and "rank 1" in texts[0], f"{codes} {texts[0][-1500:]}")


def check_differs(runs):
    output = runs.folder / "differs"
    words = [runs.words("sft", output, 1), runs.words("sft", output, 1, {"learning_rate": 0.02}.items())]
    codes, texts = runs.run(words, 2)
    good = all(codes) and all(re.search(r"learning_rate.*0\.02", text, re.S) for text in texts) and not output.exists()
    return report("ranks with different options are refused, with both values", good, f"{codes} {texts[0][-1500:]}")


def check_other_data(runs):
    output = runs.folder / "other_data"
    other = runs.folder / "other"
    other.mkdir()
    lines = (runs.folder / "texts-train.jsonl").read_text().splitlines(keepends=True)
    (other / "texts-train.jsonl").write_text("".join(lines[::-1]))
    here = other / "here.jsonl"
    words = [runs.words("sft", output, 1, {"dataset_name": here}.items())] * 2
    here.write_text("".join(lines))
    # each rank with its own view of one path, as two hosts have it
    wrapped = [["unshare", "-rm", "sh", "-c", f"mount --bind {other / 'texts-train.jsonl'} {here} && exec \"$@\"", "sh", *words[1]]]
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        print("skip ranks: ranks that see different files (no namespaces here)")
        return True
    codes, texts = runs.run([words[0], wrapped[0]], 2)
    good = all(codes) and all("training rows" in text for text in texts)
    return report("ranks that see different files are refused", good, f"{codes} {texts[0][-1500:]}")


def check_places(runs):
    words = runs.words("sft", runs.folder / "placeless", 1)
    bad = {"a missing MASTER_ADDR": ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "1234"}, "MASTER_ADDR"),
           "a rank above the world": ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1234"}, "WORLD_SIZE")}
    passed = True
    for name, (environment, word) in bad.items():
        [one] = runs.start(words, 1, environment)
        said = one.communicate(timeout=60)[0]
        passed &= report(f"{name} is refused", one.returncode not in (0, 75) and word in said, said[-800:])
    return passed


@contextlib.contextmanager
def opened(description):
    """The options of the command line, and Runs in a folder with the data."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--hone", default=SOURCE / "build/hone")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-ranks-") as folder:
        runs = Runs(options.hone, pathlib.Path(folder), options.slow)
        write_data(runs.folder)
        yield options, runs


def main():
    passed = True
    with opened(__doc__) as (options, runs):
        for case in METHODS:
            if options.only in case:
                passed &= check_equal(runs, case, (1, 2, 4, 8) if options.slow else (1, 2, 4) if case in ("sft", "grpo") else (1, 4))
        for check in (check_resume, check_killed, check_stopped, check_time_out, check_option_error, check_differs, check_other_data,
                      check_places):
            if options.only in check.__name__:
                passed &= check(runs)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
