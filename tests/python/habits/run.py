#!/usr/bin/env python3
"""Runs what users of TRL write, by TRL's documentation, under TRL and under hone.trl, and compares what both give: numbers, names, files.

A habit is a function of a file beside this one. TRL's values are in expected.json, and what hone does with the habit: works, differs or refused.
A habit may come out better than that, and not worse.

usage: tests/python/habits/run.py [--hone PROGRAM] [--fast] [--write] [GROUP|GROUP.HABIT...]
  --fast    those that need no other package, under hone only, against expected.json
  --write   TRL's values of today become expected.json
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import worker

SOURCE = HERE.parents[2]
PYTHON = SOURCE / "third_party/parity-venv/bin/python"
EXPECTED = HERE / "expected.json"
GROUPS = ("quickstart", "sft", "lora", "preferences", "rewards", "customization", "after", "rows")
SECONDS = 1500  # of all habits
ROUNDING = 2e-5  # of numbers near 0
RANK = {"works": 0, "refused": 1, "differs": 2}


def chosen(words, fast):
    """{"group.habit": Habit} of the words, in order."""
    every = {f"{group}.{name}": one for group in GROUPS for name, one in worker.habits_of(group).items()}
    wanted = {name: one for name, one in every.items() if (not words or name in words or name.partition(".")[0] in words) and (one.fast or not fast)}
    unknown = [word for word in words if word not in every and word not in GROUPS]
    if unknown:
        sys.exit(f"no habit {unknown[0]}; there are {', '.join(every)}")
    return wanted


def results(whose, names, python, program):
    """{habit: what the worker wrote}. A habit that ends the process is one that fails, and the next ones run."""
    environment = os.environ | {"HONE_PROGRAM": program, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRL_EXPERIMENTAL_SILENCE": "1",
                                "PYTHONPATH": os.pathsep.join(map(str, (SOURCE / "python", HERE)))}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "results.jsonl"
        path.touch()
        while len(found) < len(names):
            left = [name for name in names if name not in found]
            words = [str(python), "-W", "ignore", str(HERE / "worker.py"), whose, str(path), *left]
            ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=SECONDS)
            found = {line["habit"]: line for line in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
            if ended.returncode:
                died = next(name for name in names if name not in found)
                found[died] = {"habit": died, "error": f"code {ended.returncode}", "text": ended.stderr[-500:], "refused": False, "seconds": 0}
                with open(path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(found[died]) + "\n")
    return found


def differences(found, wanted, near, where=""):
    """Where two values are not the same: ["loss[2]: 1.5, TRL 1.25"]."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        names = [*wanted, *(name for name in found if name not in wanted)]
        return [text for name in names for text in differences(found.get(name), wanted.get(name), near, f"{where}{'.' if where else ''}{name}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [text for at, (one, other) in enumerate(zip(found, wanted)) for text in differences(one, other, near, f"{where}[{at}]")]
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (found, wanted))
    if numbers and abs(found - wanted) <= near * abs(wanted) + ROUNDING:
        return []
    return [] if found == wanted else [f"{where or 'value'}: {json.dumps(found)[:200]}, TRL {json.dumps(wanted)[:200]}"]


def judged(found, wanted, near):
    """(works, differs or refused; the reason)"""
    if "error" in found:
        same = found["error"] == wanted.get("error")
        lines = [line.strip() for line in found["text"].splitlines() if line.strip()] or [""]
        reason = f"{found['error']}: {' '.join(lines)[:300]}"
        return ("works" if same else "refused" if found["refused"] else "differs"), reason
    if "error" in wanted:
        return "differs", f"TRL raises {wanted['error']}"
    apart = differences(found["values"], wanted["values"], near)
    return ("differs", "; ".join(apart)[:400]) if apart else ("works", "")


def kept(one):
    """Of a result, what expected.json has: no time, and of an error its kind."""
    return {"error": one["error"]} if "error" in one else {"values": one["values"]}


def table(habits, outcome):
    counts = {kind: sum(1 for kind_of, _ in outcome.values() if kind_of == kind) for kind in RANK}
    lines = [f"{kind:8} {name}: {habits[name].title}" + (f"\n         {reason}" if reason else "") for name, (kind, reason) in outcome.items()]
    groups = []
    for group in GROUPS:
        mine = [kind for name, (kind, _) in outcome.items() if name.partition(".")[0] == group]
        if mine:
            groups.append(f"{group}: {mine.count('works')} of {len(mine)} work")
    return "\n".join([*lines, *groups, ", ".join(f"{count} {kind}" for kind, count in counts.items()) + f", of {len(outcome)} habits"])


def fast_suite(habits, program):
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    failed = 0
    for name, found in results("hone", list(habits), sys.executable, program).items():
        kind, reason = judged(found, expected[name], habits[name].near)
        failed += kind != "works"
        print(f"{'ok' if kind == 'works' else 'not ok'} as in TRL: {habits[name].title}" + (f"\n  {name} {kind}: {reason}" if reason else ""), flush=True)
    return 1 if failed else 0


def whole_suite(habits, program, writes):
    title = "what users of TRL write works on hone.trl, or is refused with a reason, as before"
    if not PYTHON.is_file():
        print(f"skip {title}: tests/parity/setup has installed no references")
        return 0
    control = results("trl", list(habits), PYTHON, program)
    ours = results("hone", list(habits), PYTHON, program)
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.is_file() else {}
    outcome = {name: judged(ours[name], kept(control[name]), one.near) for name, one in habits.items()}
    if writes:
        expected |= {name: {**kept(control[name]), "hone": outcome[name][0]} for name in habits}
        lines = [f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False, sort_keys=True)}" for name, one in sorted(expected.items())]
        EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    lost = [f"{name} {kind}, expected {expected[name]['hone']}: {reason}" for name, (kind, reason) in outcome.items()
            if RANK[kind] > RANK[expected[name]["hone"]]]
    moved = [f"{name}: TRL itself gives other values than expected.json: {text}" for name, one in habits.items()
             for text in differences(kept(control[name]), {key: value for key, value in expected[name].items() if key != "hone"}, one.near)[:1]]
    wrong = lost + moved
    print(f"{'not ok' if wrong else 'ok'} {title}", flush=True)
    print("  " + "\n".join([table(habits, outcome), *wrong]).replace("\n", "\n  "))
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("habits", nargs="*")
    given = parser.parse_args()
    program = str(pathlib.Path(given.hone).absolute())
    habits = chosen(given.habits, given.fast)
    return fast_suite(habits, program) if given.fast else whole_suite(habits, program, given.write)


if __name__ == "__main__":
    sys.exit(main())
