#!/usr/bin/env python3
"""Scripts of Unsloth as `hone check SCRIPT.py --run` records them: tokens, and what is trained of them, beside those of Unsloth's own code.

usage: third_party/parity-venv/bin/python tests/python/unsloth_masks_test.py [--hone build/hone] [NAME...]
The numbers are recorded by tests/parity/record_trainer_masks.py. Each script runs in a child of this process, which has imported
transformers and datasets once; PROGRAM's run in the program too.
"""
import argparse
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from checks import SOURCE, TINY, Tests, holds, same

sys.path.insert(0, str(SOURCE / "tests/parity"))
from masks import common
from masks.unsloth_cases import CASES, make_model, script

PROGRAM = ("a tool's turn ends an answer", "chatml, a new token")


def prepare():
    """What the program's child does before a script, once for all: libraries are imported, and changed as they are."""
    from hone.recorded import defaults
    from hone.recorded import script as runner
    runner.libraries_of_run()
    defaults.unsloth_config("SFT")
    import datasets
    import transformers
    datasets.disable_progress_bars()
    transformers.AutoTokenizer.from_pretrained(TINY)


def recorded(folder, text):
    """In a child: the rows that a script's trainer would train, and what the user is told."""
    from hone.recorded import marked_rows, record
    from hone.recorded import script as runner
    runner.begin({"script": "train.py", "folder": str(folder / "kept"), "arguments": [], "online": False})
    trainer = runner.run(text).trainer
    rows = marked_rows.with_tokens(trainer, trainer._train_rows)  # of other rows: the tokens that hone.trl counts
    return cut(rows, trainer.args.max_length), record.NOTES


def cut(rows, most):
    """As the program does: rows are cut to max_length, and those with nothing to train are left out."""
    rows = [{name: row[name][:most] for name in ("input_ids", "labels")} for row in rows]
    return [row for row in rows if any(label != -100 for label in row["labels"])]


def in_child(folder, text):
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(folder)
            said = json.dumps(recorded(folder, text))
        except BaseException as error:
            said = json.dumps([None, repr(getattr(error, "parts", error))])
        with os.fdopen(writes, "w") as file:
            file.write(said)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as file:
        said = file.read()
    os.waitpid(child, 0)
    return json.loads(said)


def in_program(folder, program):
    env = {**os.environ, "HONE_PYTHON": sys.executable, "TMPDIR": str(folder), "PYTHONPATH": ""}
    for variable in ("HONE_CALLER", "VIRTUAL_ENV", "HF_HUB_OFFLINE"):
        env.pop(variable, None)
    ended = subprocess.run([program, "check", "train.py", "--run", "--keep", "shown"], cwd=folder, env=env, capture_output=True, text=True, timeout=100,
                           stdin=subprocess.DEVNULL)
    same(ended.returncode, 0, ended.stdout + ended.stderr)
    lines = (folder / "shown/run/inputs/train.jsonl").read_text(encoding="utf-8").splitlines()
    return cut([json.loads(line) for line in lines], None)


def check(name, expected, scratch, program):
    folder = pathlib.Path(scratch) / str(list(CASES).index(name))
    (folder / "kept").mkdir(parents=True)
    make_model(CASES[name], folder / "model")
    (folder / "train.py").write_text(script(CASES[name]), encoding="utf-8")
    rows, said = in_child(folder, script(CASES[name]))
    holds(rows is not None, said)
    same([common.row_of(row["input_ids"], row["labels"]) for row in rows], expected["rows"], said)
    if name in PROGRAM:
        same(in_program(folder, program), rows, "by the program")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    file = json.loads((common.FOLDER / "unsloth.json").read_text(encoding="utf-8"))
    same(list(file["cases"]), list(CASES), "every script is recorded")
    os.environ["HONE_PROGRAM"] = os.path.abspath(asked.hone)
    tests = Tests()
    prepare()
    with tempfile.TemporaryDirectory(prefix="hone-unsloth-") as scratch:
        for name in asked.names or CASES:
            tests.run([functools.partial(check, name, file["cases"][name], scratch, os.path.abspath(asked.hone))],
                      title=f"a script of Unsloth, {name}: Unsloth's own tokens and masks")
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
