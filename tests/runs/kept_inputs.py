#!/usr/bin/env python3
"""What a run reads is never removed or overwritten, and what hone did not write stays: every command that writes, every kind of link.

Each check compares the SHA-256 of every file before and after. Paths as users write them (blanks, umlauts, "~", links), and a resume on
other kernels, are here too.

Prints `ok NAME` or `not ok NAME` a check. usage: kept_inputs.py [--hone PROGRAM]
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TINY = SOURCE / "tests/fixtures/parity/tiny_llama"
FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
RUN = ("--dtype", "float32", "--bf16", "false", "--skip_doctor", "true", "--threads", "1", "--report_page", "false", "--max_length", "32")
ROWS = '{"text": "a b c"}\n{"text": "d e f"}\n'


def sums(folder):
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file()}


class Checks:
    def __init__(self, hone, folder):
        self.hone, self.folder, self.failed = hone, folder, 0

    def say(self, name, good, shown=""):
        print(("ok " if good else "not ok ") + name, flush=True)
        if not good:
            self.failed += 1
            print("\n".join("# " + line for line in str(shown).splitlines()[-30:]), flush=True)

    def run(self, *words, env=None):
        done = subprocess.run([self.hone, *map(str, words)], cwd=self.folder, capture_output=True, text=True, errors="replace", timeout=120,
                              env={**os.environ, "HF_HUB_OFFLINE": "1", **(env or {})}, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def train(self, *more, model=TINY, rows="rows.jsonl", peft=True, method="sft", env=None):
        return self.run(method, "--model_name_or_path", model, "--dataset_name", rows, "--use_peft", str(peft).lower(), *RUN, "--max_steps", 1,
                        *more, env=env)

    def model(self, name):
        target = self.folder / name
        target.mkdir(parents=True)
        for file in FILES:
            shutil.copyfile(TINY / file, target / file)
        return target

    def refused(self, name, words, *texts, command=None):
        """The command ends with 2, says `texts`, and changes nothing below the folder."""
        before = sums(self.folder)
        code, said = command() if command else self.run(*words)
        changed = [file for file, value in sums(self.folder).items() if before.get(file) != value] + \
                  [file for file in before if not (self.folder / file).exists()]
        self.say(name, code == 2 and not changed and all(text in said for text in texts), f"code {code}, changed {changed}\n{said}")


def own_folder(checks):
    for peft in (True, False):
        for overwrite in ("false", "true"):
            kind = f"{'LoRA' if peft else 'full'}, overwrite_output_dir {overwrite}"
            base = checks.model(f"own-{peft}-{overwrite}")
            checks.refused(f"the model's own folder: {kind}", None, "is the same folder", "model_name_or_path",
                           command=lambda: checks.train("--output_dir", base, "--overwrite_output_dir", overwrite, model=base, peft=peft))
    os.symlink("own-True-true", checks.folder / "link")
    for name, output in (("a link", "link"), ("a trailing slash", "own-True-true/"), ("..", "own-True-true/../own-True-true"), ("./", "./own-True-true/.")):
        checks.refused(f"the same by {name}", None, "is the same folder",
                       command=lambda output=output: checks.train("--output_dir", output, "--overwrite_output_dir", "true", model="own-True-true"))
        checks.refused(f"the model named by {name}", None, "is the same folder",
                       command=lambda output=output: checks.train("--output_dir", "own-True-true", "--overwrite_output_dir", "true", model=output))
    rows = ("--output_dir", "own-True-true", "--overwrite_output_dir", "true")
    checks.refused("the tokenizer's folder", None, "tokenizer_name_or_path",
                   command=lambda: checks.train(*rows, "--tokenizer_name_or_path", "own-True-true"))
    checks.refused("a model that is not read", None, "which no run of hone wrote here", command=lambda: checks.train(*rows))
    checks.refused("in two ranks there is one refusal", None, "is the same folder", command=lambda: checks.run(
        "launch", "--nproc", 2, "--", "sft", "--model_name_or_path", "own-True-true", "--dataset_name", "rows.jsonl", "--use_peft", "true", *RUN,
        "--max_steps", 1, *rows))
    (checks.folder / "bound").mkdir()
    if subprocess.run(["unshare", "-m", "mount", "--bind", "own-True-true", "bound"], cwd=checks.folder, capture_output=True, check=False).returncode == 0:
        words = ("sft", "--model_name_or_path", "own-True-true", "--dataset_name", "rows.jsonl", "--use_peft", "true", *RUN, "--output_dir", "bound")
        done = subprocess.run(["unshare", "-m", "bash", "-c", 'mount --bind own-True-true bound && exec "$@"', "_", checks.hone, *words],
                              cwd=checks.folder, capture_output=True, text=True, check=False)
        checks.say("a bind mount of the model's folder", done.returncode == 2 and "is the same folder" in done.stderr, done.stdout + done.stderr)
    else:
        print("skip a bind mount of the model's folder: mounting is not allowed")
    cache = checks.folder / "hub/models--o--m"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots/abc").mkdir(parents=True)
    for file in FILES:
        shutil.copyfile(TINY / file, cache / "blobs" / file)
        os.symlink(f"../../blobs/{file}", cache / "snapshots/abc" / file)
    checks.refused("a snapshot of the hub's cache", None, "is the same folder",
                   command=lambda: checks.train("--output_dir", cache / "snapshots/abc", "--overwrite_output_dir", "true", model=cache / "snapshots/abc"))


def killed(words, folder, begun):
    """A run of so many steps that it does not end, killed when `begun` holds."""
    with subprocess.Popen([*map(str, words), "--max_steps", "100000"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        end = time.monotonic() + 60
        while time.monotonic() < end and not begun():
            time.sleep(0.1)
        run.send_signal(signal.SIGKILL)


def records(checks):
    """What a run without a checkpoint has logged is not lost when it begins again."""
    metrics = checks.folder / "short/metrics.jsonl"
    killed((checks.hone, "sft", "--model_name_or_path", TINY, "--dataset_name", "rows.jsonl", "--use_peft", "true", *RUN, "--logging_steps", 1,
            "--output_dir", "short"), checks.folder, lambda: metrics.exists() and metrics.stat().st_size > 0)
    lines = metrics.read_bytes()
    code, said = checks.train("--output_dir", "short")
    kept = checks.folder / "short/abandoned-1-after-0/metrics.jsonl"
    checks.say("the metrics of a run killed before its first checkpoint stay", code == 0 and kept.exists() and kept.read_bytes() == lines, said)


def own_result(checks):
    """A full result is the next run's model and output_dir; killed or not, it stays."""
    code, said = checks.train("--output_dir", "full", "--save_strategy", "no", peft=False)
    checks.say("full training into a new folder", code == 0, said)
    checks.refused("its result as the next run's model and output_dir", None, "is the same folder",
                   command=lambda: checks.train("--output_dir", "full", "--overwrite_output_dir", "true", model="full", peft=False))
    before = sums(checks.folder / "full")
    metrics = checks.folder / "full/metrics.jsonl"
    killed((checks.hone, "sft", "--model_name_or_path", TINY, "--dataset_name", "rows.jsonl", "--use_peft", "false", *RUN, "--save_strategy", "no",
            "--output_dir", "full", "--overwrite_output_dir", "true"), checks.folder,
           lambda: metrics.exists() and metrics.stat().st_size > 0 and sums(checks.folder / "full") != before)
    after = sums(checks.folder / "full")
    kept = {name for name in before if name.endswith((".safetensors", ".json")) and not name.startswith("hone-")}
    checks.say("an overwriting run that is killed leaves the earlier result", all(after.get(name) == before[name] for name in kept),
               f"{before}\n{after}")
    code, said = checks.train("--output_dir", "full", "--overwrite_output_dir", "true", peft=False)
    checks.say("and the next one takes its place", code == 0 and "stays until this run's takes its place" in said, said)
    inside = checks.folder / "around"
    inside.mkdir()
    checks.model("around/base")
    before = sums(inside / "base")
    code, said = checks.train("--output_dir", "around", "--overwrite_output_dir", "true", model="around/base")
    checks.say("a model within output_dir is only read", code == 0 and sums(inside / "base") == before, said)
    code, said = checks.train("--output_dir", "around/base/out", model="around/base")
    checks.say("output_dir within the model's folder", code == 0 and {name: sums(inside / "base")[name] for name in before} == before, said)
    code, said = checks.train("--output_dir", "around/base/out", "--overwrite_output_dir", "true", model="around/base")
    checks.say("and again, with overwrite_output_dir", code == 0 and {name: sums(inside / "base")[name] for name in before} == before, said)
    checks.refused("a checkpoint of output_dir as the model", None, "adapter_name_or_path", command=lambda: checks.train(
        "--output_dir", "around", "--overwrite_output_dir", "true", "--adapter_name_or_path", "around/checkpoint-1"))
    checks.refused("the adapter in output_dir is continued there", None, "is the same folder", command=lambda: checks.train(
        "--output_dir", "around", "--overwrite_output_dir", "true", "--adapter_name_or_path", "around"))
    checks.refused("a checkpoint of another run as output_dir", None, "hone_state.json", command=lambda: checks.train(
        "--output_dir", "around/checkpoint-1", "--overwrite_output_dir", "true"))


def users_files(checks):
    notes = checks.folder / "notes"
    (notes / "checkpoint-1").mkdir(parents=True)
    (notes / "thesis.txt").write_text("important\n")
    (notes / "checkpoint-1/x").write_text("mine\n")
    for overwrite in ("true", "false"):
        checks.refused(f"a user's checkpoint-1, overwrite_output_dir {overwrite}", None, "checkpoint-1",
                       command=lambda: checks.train("--output_dir", "notes", "--overwrite_output_dir", overwrite))
    shutil.rmtree(notes / "checkpoint-1")
    (notes / "README.md").write_text("mine\n")
    before = sums(notes)
    code, said = checks.train("--output_dir", "notes", "--overwrite_output_dir", "true")
    checks.say("beside files of other names a run writes", code == 0 and {name: sums(notes)[name] for name in before} == before, said)
    for name in ("metrics.jsonl", "plan.yaml", "tokenizer.json", "report.html", "completions/completions_00001.jsonl", "hone-page.json",
                 "adapter_config.json", "trainer_state.json"):
        folder = checks.folder / ("with-" + name.replace("/", "-"))
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("mine\n")
        checks.refused(f"a user's {name}", None, name.split("/", maxsplit=1)[0],
                       command=lambda folder=folder: checks.train("--output_dir", folder, "--overwrite_output_dir", "true"))


def rows_and_links(checks):
    for kind, link in (("hard link", os.link), ("symbolic link", lambda a, b: os.symlink(pathlib.Path(a).resolve(), b))):
        folder = checks.folder / kind.replace(" ", "-")
        folder.mkdir()
        link(checks.folder / "rows.jsonl", folder / "metrics.jsonl")
        for overwrite in ("true", "false"):
            checks.refused(f"metrics.jsonl is a {kind} of the rows, overwrite_output_dir {overwrite}", None, "dataset_name",
                           command=lambda: checks.train("--output_dir", folder, "--overwrite_output_dir", overwrite))
    os.mkdir(checks.folder / "linked")
    base = checks.model("linked-base")
    os.symlink(base, checks.folder / "linked/checkpoint-1")
    checks.refused("checkpoint-1 is a link to the model", None, "model_name_or_path",
                   command=lambda: checks.train("--output_dir", "linked", "--overwrite_output_dir", "true", model=base))
    data = checks.folder / "data"
    data.mkdir()
    (data / "rows.jsonl").write_text(ROWS)
    checks.refused("the folder of the data", None, "dataset_name", command=lambda: checks.train("--output_dir", "data", rows="data"))
    code, said = checks.train("--output_dir", "data", rows="data/rows.jsonl")
    checks.say("a file of rows beside the run", code == 0 and (data / "rows.jsonl").read_text() == ROWS, said)
    (checks.folder / "metrics.jsonl").write_text(ROWS)
    checks.refused("the rows are metrics.jsonl of output_dir", None, "dataset_name",
                   command=lambda: checks.train("--output_dir", ".", "--overwrite_output_dir", "true", rows="metrics.jsonl"))


def other_commands(checks):
    code, said = checks.train("--output_dir", "adapter")
    checks.say("an adapter", code == 0, said)
    base = checks.model("base")
    (checks.folder / "prompts.jsonl").write_text('{"prompt": "a"}\n')
    os.link(checks.folder / "prompts.jsonl", checks.folder / "hard.jsonl")
    os.symlink("prompts.jsonl", checks.folder / "soft.jsonl")
    for output in ("prompts.jsonl", "hard.jsonl", "soft.jsonl", "base/config.json"):
        checks.refused(f"generate --output {output}", ("generate", "--model_name_or_path", "base", "--prompts", "prompts.jsonl", "--max_new_tokens", 2,
                                                       "--output", output), "never removed or overwritten")
    (checks.folder / "thesis.jsonl").write_text('{"years": 4}\n')
    for output in ("thesis.jsonl", "adapter/metrics.jsonl", "adapter/plan.yaml"):
        checks.refused(f"generate --output {output}", ("generate", "--model_name_or_path", "base", "--prompt", "a", "--max_new_tokens", 2,
                                                       "--output", output), "another file")
    for output in ("mine.jsonl", "base/mine.jsonl"):
        for _ in range(2):
            code, said = checks.run("generate", "--model_name_or_path", "base", "--prompt", "a", "--max_new_tokens", 2, "--output", output)
            checks.say(f"generate writes its own {output} again", code == 0, said)
    for output in ("base", "adapter", "base/", "link-to-base"):
        if output == "link-to-base":
            os.symlink("base", checks.folder / output)
        checks.refused(f"merge --output {output}", ("merge", "--model_name_or_path", base, "--adapter_name_or_path", "adapter", "--output", output), "exists")
        checks.refused(f"convert --output {output}", ("convert", "--input", base, "--output", output), "exist")
        checks.refused(f"merge --adapters, --output {output}", ("merge", "--adapters", "adapter", "adapter", "--output", output), "exist")
    (checks.folder / "mine.gguf").write_text("mine")
    checks.refused("export --output of a file", ("export", "--model_name_or_path", base, "--output", "mine.gguf"), "which exists")
    (checks.folder / "run.yaml").write_text(f"model_name_or_path: {base}\ndataset_name: table.json\nuse_peft: true\nmax_length: 32\noutput_dir: lr\n")
    (checks.folder / "table.json").write_text('[{"text": "a b c"}, {"text": "d e f"}]')
    checks.refused("lr-find --output of the rows", ("lr-find", "run.yaml", "--output", "table"), "dataset_name")
    (checks.folder / "thesis.json").write_text('{"years": 4}')
    checks.refused("lr-find --output of a user's file", ("lr-find", "run.yaml", "--output", "thesis"), "another file")
    (checks.folder / "drawing.svg").write_text("<svg>mine</svg>")
    checks.refused("lr-find --output beside a user's drawing", ("lr-find", "run.yaml", "--output", "drawing"), "another file")
    (checks.folder / "mine.html").write_text("mine")
    checks.refused("report --output of a user's file", ("report", "adapter", "--output", "mine.html"), "another file")
    checks.refused("report --output of the run's metrics", ("report", "adapter", "--output", "adapter/metrics.jsonl"), "another file")


def resumes(checks):
    code, said = checks.train("--output_dir", "kernels", "--save_steps", 1, env={"HONE_INSTRUCTIONS": "avx2"})
    state = json.loads((checks.folder / "kernels/checkpoint-1/hone_state.json").read_text())["run"]["machine"]
    checks.say("a checkpoint says on which kernels", code == 0 and state["kernels"] == "avx2" and state["version of libtorch"], said)
    words = ("--output_dir", "kernels", "--max_steps", 2, "--resume_from_checkpoint", "true")
    code, said = checks.train(*words, "--instructions", "plain")
    flat = " ".join(said.split())
    checks.say("a resume on others is told, with the level that has the first ones", code == 0 and "kernels: avx2 -> plain" in flat
               and "--instructions avx2" in flat and "not equal to an uninterrupted one" in flat, said)
    shutil.rmtree(checks.folder / "kernels/checkpoint-2")
    code, said = checks.train("--output_dir", "kernels", "--max_steps", 2, "--resume_from_checkpoint", "kernels/checkpoint-1", "--instructions", "avx2")
    checks.say("on the same ones nothing is said", code == 0 and "kernels:" not in said, said)
    code, said = checks.train("--output_dir", "kernels", "--max_steps", 2, "--resume_from_checkpoint", "true", "--instructions", "avx2")
    checks.say("a resume past the end says that nothing is left to do", code == 0 and "nothing is left to do" in said, said)


def paths(checks):
    home = checks.folder / "home"
    home.mkdir()
    shutil.copytree(checks.model("my dir/mödel ü"), home / "model")
    (home / "rows.jsonl").write_text(ROWS)
    (checks.folder / "my dir/dätä rows.jsonl").write_text(ROWS)
    environment = {"HOME": str(home)}
    code, said = checks.train("--output_dir", "my dir/out put/", model="my dir/mödel ü/", rows="my dir/dätä rows.jsonl")
    checks.say("blanks and umlauts", code == 0 and (checks.folder / "my dir/out put/adapter_config.json").exists(), said)
    code, said = checks.train("--max_steps", 2, "--resume_from_checkpoint", "my dir/out put/checkpoint-1/", "--output_dir", "my dir/out put/",
                              model="my dir/mödel ü/", rows="my dir/dätä rows.jsonl")
    checks.say("resumed from a path with a slash", code == 0 and "after step 1" in said, said)
    code, said = checks.run("merge", "--adapter_name_or_path", "my dir/out put", "--output", "my dir/merged ü")
    checks.say("merged into a path with blanks", code == 0 and (checks.folder / "my dir/merged ü/config.json").exists(), said)
    (checks.folder / "t.yaml").write_text("model_name_or_path: ~/model\ndataset_name: ~/rows.jsonl\noutput_dir: ~/runs/x\n")
    code, said = checks.run("sft", "--config", "t.yaml", "--use_peft", "true", *RUN, "--max_steps", 1, env=environment)
    checks.say("~ in YAML", code == 0 and (home / "runs/x/adapter_config.json").exists(), said)
    shutil.copyfile(checks.folder / "t.yaml", home / "t.yaml")
    code, said = checks.run("check", "~/t.yaml", env=environment)
    checks.say("~ of hone check", str(home / "rows.jsonl") in said, said)
    for command in (("generate", "--model_name_or_path=~/model", "--prompt", "a", "--max_new_tokens", 1, "--output=~/g.jsonl"),
                    ("merge", "--adapter_name_or_path=~/runs/x", "--output=~/merged"), ("convert", "--input=~/model", "--output=~/converted"),
                    ("export", "--model_name_or_path=~/model", "--output=~/m.gguf"), ("report", "~/runs/x", "--output=~/page.html")):
        code, said = checks.run(*command, env=environment)
        target = home / str(command[-1]).split("~/")[-1]
        checks.say(f"~ of hone {command[0]}", code == 0 and target.exists(), said)
    code, said = checks.train("--output_dir", "~/y", model="~/model", rows="~/rows.jsonl", env={"HOME": ""})
    checks.say("~ without HOME", code == 2 and "HOME is not set" in said, said)
    code, said = checks.train("--output_dir", "${HOME}/z", env=environment)
    checks.say("${HOME} in output_dir", code == 2 and "environment variables are not expanded" in said and f"write {home}/z" in said, said)
    code, said = checks.train("--output_dir", "q", "--push_to_hub", "true", "--hub_model_id", "me/model-${VERSION_X}")
    checks.say("a variable in hub_model_id", code == 2 and "it is not set" in said and "VERSION_X" in said, said)
    code, said = checks.run("sft", "--config", "~/t.yaml", "--use_peft", "true", *RUN, "--max_steps", 1, "--output_dir", "nohome",
                            env={**environment, "TMPDIR": "/nonexistent", "LC_ALL": "de_DE.UTF-8"})
    checks.say("without TMPDIR, in another locale", code == 0 and "max_steps: 1" in (checks.folder / "nohome/plan.yaml").read_text(), said)
    (checks.folder / "file").write_text("mine")
    for overwrite in ("true", "false"):
        checks.refused(f"output_dir is a file, overwrite_output_dir {overwrite}", None, "a file of that name",
                       command=lambda: checks.train("--output_dir", "file", "--overwrite_output_dir", overwrite))
    checks.refused("output_dir below a file", None, command=lambda: checks.train("--output_dir", "file/below"))
    checks.refused("output_dir in /proc", None, "keeps no files", command=lambda: checks.train("--output_dir", "/proc/x/y"))
    for name, text in (("empty.jsonl", ""), ("blank.jsonl", "\n\n"), ("list.json", "[]")):
        (checks.folder / name).write_text(text)
        checks.refused(f"{name} has no rows", None, "row", command=lambda name=name: checks.train("--output_dir", "e", rows=name))
    tildes = [path for path in checks.folder.rglob("*") if "~" in path.name]
    checks.say("no folder is called ~", not tildes, tildes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--only", help="the name of one group of checks")
    asked = parser.parse_args()
    failed = 0
    for group in (own_folder, own_result, records, users_files, rows_and_links, other_commands, resumes, paths):
        if asked.only and group.__name__ != asked.only:
            continue
        with tempfile.TemporaryDirectory(prefix="hone-kept-") as folder:
            checks = Checks(os.path.abspath(asked.hone), pathlib.Path(folder))
            (checks.folder / "rows.jsonl").write_text(ROWS)
            group(checks)
            failed += checks.failed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
