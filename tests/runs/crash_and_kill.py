#!/usr/bin/env python3
"""What is left of a run that a signal ends: an operator that dies, and a process that is killed.

HONE_CRASH=SIGNAL@OPERATOR:STEP lets hone raise the signal when that operator begins. The exit status is the signal's own, stderr
says where, hone-crash-PID.json parses, `hone explain` reads it, and the run resumes bit for bit. SIGKILL leaves
hone-running.json, which the next start and `hone explain` speak of. SIGNAL+SIGNAL@OPERATOR raises each in a thread of its own.

Prints `ok NAME` or `not ok NAME` a check. usage: crash_and_kill.py [--hone PROGRAM] [--times N]
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = SOURCE / "tests/fixtures/parity"
TIMES = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "performance")
passed = True


def check(name, holds, why=""):
    global passed
    passed = passed and bool(holds)
    print(f"{'ok' if holds else 'not ok'} crash: {name}" + ("" if holds else f"\n  {why}"), flush=True)


def sft(hone, output, *more):
    return [str(hone), "sft", "--model_name_or_path", str(FIXTURES / "tiny_llama"), "--dataset_name",
            str(FIXTURES / "sft/text.jsonl"), "--output_dir", str(output), "--use_peft", "--lora_r", "4", "--bf16", "false",
            "--per_device_train_batch_size", "2", "--max_steps", "6", "--save_steps", "2", "--logging_steps", "1", "--threads",
            "1", "--skip_doctor", *more]


def crashing(hone, output):
    return sft(hone, output, "--max_steps", "1", "--report_to", "none")


def run(words, crash=None, folder=None):
    environment = {**os.environ, "NO_COLOR": "1"}
    environment.pop("HONE_CRASH", None)
    if crash:
        environment["HONE_CRASH"] = crash
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=folder, timeout=120)
    return done.returncode, done.stdout, done.stderr


def losses(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def crashes(hone, root):
    straight = root / "straight"
    code, _, error = run(sft(hone, straight))
    check("the run without a crash ends", code == 0, error)
    check("and leaves no report", not [path for path in straight.glob("hone-*") if path.name != "hone-page.json"], list(straight.iterdir()))

    folder = root / "crashed"
    code, _, error = run(sft(hone, folder), "SIGFPE@gemm:4")
    check("the exit status is the signal's", code == -signal.SIGFPE, code)
    for words in ("CRASH NUM-07  signal 8 (SIGFPE", "at step 4", "gemm fp32 m=", ", layer 0", "learning rate, warm-up",
                  f"{folder}/checkpoint-2 is complete", "hone explain"):
        check(f"stderr says: {words.replace(str(root), '')}", words in error, error)
    reports = list(folder.glob("hone-crash-*.json"))
    check("one report", len(reports) == 1, list(folder.iterdir()))
    report = json.loads(reports[0].read_text())
    check("with operator, step and checkpoint", (report["operator"], report["step"], report["checkpoint"], report["code"]) ==
          ("gemm", 4, 2, "NUM-07"), report)
    for asked in (reports[0], folder):
        code, out, error = run([str(hone), "explain", str(asked)])
        check(f"explain of {'the folder' if asked == folder else 'the report'}",
              code == 0 and "gemm fp32" in out and "checkpoint-2 is complete" in out, out + error)
    code, out, error = run(sft(hone, folder, "--resume_from_checkpoint", "true"))
    check("the next start says so", code == 0 and "the last run here crashed at step 3" in out, out + error)
    check("and ends as if nothing had been", losses(folder) == losses(straight), losses(folder))

    for name, where in (("SIGSEGV", "attention"), ("SIGABRT", "linear_logprob"), ("SIGILL", "attention backward"),
                        ("SIGBUS", "gemm")):
        other = root / name
        code, _, error = run(sft(hone, other), f"{name}@{where}:1")
        check(f"{name} in {where}", code == -getattr(signal, name) and f"({name}" in error and f"where:  {where} " in error,
              f"{code} {error}")
        check(f"{name}: no checkpoint yet", "no checkpoint yet" in error, error)


def at_once(hone, root, times):
    """Several threads fault at the same moment: whatever the order, one whole report, and the signal of one of them."""
    for names, folder in (("SIGSEGV+SIGSEGV", "two"), ("SIGSEGV+SIGABRT+SIGFPE+SIGSEGV", "four"), ("STACK", "stack"),
                          ("SIGSEGV+STACK", "stack_too")):
        allowed = {-getattr(signal, "SIGSEGV" if name == "STACK" else name) for name in names.split("+")}
        lost = []
        for i in range(times if "+" in names else 1):
            output = root / f"{folder}{i}"
            code, _, error = run(crashing(hone, output), f"{names}@gemm:1")
            reports = list(output.glob("hone-crash-*.json"))
            whole = len(reports) == 1 and json.loads(reports[0].read_text())["operator"] == "gemm"
            if not (code in allowed and whole and error.count("hone: CRASH") == 1 and "hone explain" in error):
                lost.append((code, reports, error))
        check(f"{names} at once: every report is there", not lost, lost[:2])


def kills(hone, root):
    folder = root / "killed"
    code, _, error = run(sft(hone, folder), "SIGKILL@gemm:4")
    check("a killed process says nothing", code == -signal.SIGKILL and error == "", f"{code} {error}")
    check("and leaves its state", (folder / "hone-running.json").exists(), list(folder.iterdir()))
    code, out, error = run([str(hone), "explain", str(folder)])
    check("explain says where it was", code == 0 and "killed at step 3 of 6" in out and "checkpoint-2" in out, out + error)
    code, out, error = run(sft(hone, folder, "--resume_from_checkpoint", "true"))
    check("the next start says it", code == 0 and "the last run here was killed at step 3 of 6" in out, out + error)
    check("the state is gone at the end", not (folder / "hone-running.json").exists(), list(folder.iterdir()))
    code, out, error = run([str(hone), "explain", str(folder)])
    check("explain of a run that ended", code == 0 and "has finished" in out, out + error)


SLOW_REWARD = ("import pathlib, time\n"
               "def slow(completions, **_):\n"
               "    if pathlib.Path('slow').exists():\n"
               "        pathlib.Path('called').touch()\n"
               "        time.sleep(600)\n"
               "    return [float(i) for i in range(len(completions))]\n")


def wait_for(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def asked_twice(hone, root):
    """The first waits for the step. A second Ctrl-C ends the process at once, and `hone explain` says so; a second SIGTERM ends the
    step, a call of Python in it too, and nothing else. Both are the same request when they come within two seconds."""
    for name in ("SIGINT", "SIGTERM"):
        place = root / f"twice_{name}"
        place.mkdir()
        (place / "rewards.py").write_text(SLOW_REWARD)
        (place / "slow").touch()
        words = [str(hone), "grpo", "--model_name_or_path", str(FIXTURES / "tiny_llama"), "--dataset_name",
                 str(FIXTURES / "trl_grpo/prompts.jsonl"), "--use_peft", "--bf16", "false", "--per_device_train_batch_size", "4",
                 "--num_generations", "4", "--max_completion_length", "4", "--max_steps", "2", "--threads", "1", "--skip_doctor", "--stop_grace", "600",
                 "--report_to", "none", "--reward_funcs", "rewards.py:slow", "--python", sys.executable, "--output_dir", "out"]
        with open(place / "said", "w+", encoding="utf-8") as said:
            process = subprocess.Popen(words, cwd=place, stdout=subprocess.DEVNULL, stderr=said, stdin=subprocess.DEVNULL,
                                       env={**os.environ, "NO_COLOR": "1"}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            try:
                there = wait_for((place / "called").exists)
                process.send_signal(getattr(signal, name))
                asked = there and wait_for(lambda: "once more: at once" in (place / "said").read_text())
                process.send_signal(getattr(signal, name))
                time.sleep(2.2)
                check(f"{name}: the first waits for the step, and another right after it", asked and process.poll() is None,
                      (place / "said").read_text())
                process.send_signal(getattr(signal, name))
                process.wait(30)
            finally:
                process.kill()
                process.wait()
        (place / "slow").unlink()
        if name == "SIGTERM":
            check("SIGTERM: a later one ends the step", process.returncode == 130, process.returncode)
            code, out, error = run(words, folder=place)
            check("SIGTERM: the next start trains", code == 0, out + error)
            continue
        check(f"{name}: a later one ends it at once", process.returncode == -getattr(signal, name), process.returncode)
        told = "the last run here was ended at once by a second Ctrl-C, at step 0 of 2"
        code, out, error = run([str(hone), "explain", "out"], folder=place)
        check(f"{name}: explain names it", code == 0 and told in out and "kill -9" not in out, out + error)
        code, out, error = run(words, folder=place)
        check(f"{name}: the next start says it, and trains", code == 0 and told in out, out + error)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    parser.add_argument("--times", type=int, default=20, help="of each run whose threads fault at once")
    arguments = parser.parse_args()
    hone = arguments.hone.resolve()
    with tempfile.TemporaryDirectory(prefix="hone_crash_") as temporary:
        crashes(hone, pathlib.Path(temporary))
        kills(hone, pathlib.Path(temporary))
        asked_twice(hone, pathlib.Path(temporary))
        at_once(hone, pathlib.Path(temporary), arguments.times)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
