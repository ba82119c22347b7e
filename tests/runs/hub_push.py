#!/usr/bin/env python3
"""push_to_hub and `hone push` as a user calls them, with a stand-in `huggingface_hub`; tests/parity/check_hub_push.py runs the real one
against a local server. Nothing here opens a connection.

usage: hub_push.py [--hone PROGRAM]
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

from stand_in import FIXTURES, HUB, SOURCE, StandIn

ADAPTER = {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"}


def fresh(runs, name):
    runs.forget()
    shutil.rmtree(runs.folder / "server", ignore_errors=True)
    return runs.folder / name, runs.folder / "server"


def at_the_end(runs):
    out, server = fresh(runs, "out")
    code, said = runs.train(out, 2, "--push_to_hub", "--hub_strategy", "end", "--hub_token", "hf_secret", "--hub_private_repo", "true",
                            "--save_steps", 1)
    runs.check("the adapter is pushed", code == 0 and "pushed    https://hub/me/out/commit/1" in said, said)
    made = runs.calls("create")
    runs.check("to a repository of the folder's name, private, with the token", made[:1] == [["out", True, "hf_secret"]], made)
    commits = runs.calls("commit")
    runs.check("hub_strategy end: one commit", [one[1] for one in commits] == ["End of training"] and commits[0][0] == "me/out", commits)
    files = set(commits[0][3]) if commits else set()
    runs.check("adapter, tokenizer and card, and nothing else", ADAPTER <= files and not files & {"plan.yaml", "metrics.jsonl"}
               and not any("checkpoint" in name for name in files), files)
    card = (server / "README.md").read_text() if server.exists() else ""
    runs.check("the card has metadata and the options", card.startswith("---\n") and "library_name: peft" in card
               and "| `max_steps` | 2 |" in card and "| `loss` |" in card and str(runs.folder) not in card, card)
    kept = "".join(path.read_text(errors="ignore") for path in out.rglob("*") if path.is_file() and path.suffix in (".yaml", ".json", ".md"))
    runs.check("the token is written nowhere", "hf_secret" not in kept + said + card, said)
    runs.check("no links are left", not list(out.glob(".hone-push*")), list(out.iterdir()))


def while_it_runs(runs):
    out, server = fresh(runs, "every")
    code, said = runs.train(out, 3, "--push_to_hub", "--hub_model_id", "o/m", "--hub_always_push", "true", "--hub_revision", "v1",
                            "--save_steps", 1, "--save_total_limit", 1)
    commits = runs.calls("commit")
    runs.check("every_save with hub_always_push: each save", code == 0 and [one[1] for one in commits] == [
        "Training in progress, step 1", "Training in progress, step 2", "Training in progress, step 3", "End of training"], (said, commits))
    runs.check("on the branch", {one[2] for one in commits} == {"v1"} and ["o/m", "v1"] in runs.calls("branch"), commits)
    out, server = fresh(runs, "last")
    code, said = runs.train(out, 3, "--push_to_hub", "--hub_strategy", "checkpoint", "--save_steps", 1)
    state = server / "last-checkpoint/trainer_state.json"
    step = json.loads(state.read_text())["global_step"] if state.exists() else None
    runs.check("checkpoint: the newest one is in last-checkpoint", code == 0 and step == 3, (said, runs.calls("commit")))
    out, server = fresh(runs, "all")
    code, said = runs.train(out, 3, "--push_to_hub", "--hub_strategy", "all_checkpoints", "--save_steps", 1)
    whole = all((server / f"checkpoint-{step}/hone_state.json").exists() for step in (1, 2, 3))
    runs.check("all_checkpoints: each is there", code == 0 and whole, (said, runs.calls("commit")))

    runs.forget()
    before = sorted(path.name for path in (out / "checkpoint-2").iterdir())
    code, said = runs.run("push", out / "checkpoint-2", "--hub_model_id", "o/m")
    commits = runs.calls("commit")
    runs.check("hone push uploads a checkpoint's adapter, and leaves the checkpoint as it is", code == 0 and commits
               and ADAPTER <= set(commits[0][3]) and before == sorted(path.name for path in (out / "checkpoint-2").iterdir()),
               (said, commits))


def when_it_fails(runs):
    out, server = fresh(runs, "failed")
    code, said = runs.train(out, 2, "--push_to_hub", "--hub_model_id", "o/m", "--hub_strategy", "end", "--hub_token", "hf_secret",
                            STAND_IN_DOES="raises")
    runs.check("a refused token loses nothing", code == 0 and (out / "adapter_config.json").exists()
               and "401 Client Error: Unauthorized for ***" in said and f"`hone push {out}`" in said, said)
    code, said = runs.run("push", out, STAND_IN_DOES="raises")
    runs.check("hone push says it too", code == 2 and "401 Client Error" in said, said)
    (out / "README.md").write_text("my own card\n")
    code, said = runs.run("push", out, "--hub_revision", "v2")
    commits = runs.calls("commit")
    runs.check("hone push repeats it, with the run's options", code == 0 and commits and commits[0][0] == "o/m" and commits[0][2] == "v2"
               and ADAPTER <= set(commits[0][3]), (said, commits))
    runs.check("a card of the user's own is kept", (server / "README.md").read_text() == "my own card\n", said)
    code, said = runs.run("push", out, PYTHONPATH=str(runs.folder / "none"))
    runs.check("without huggingface_hub it names the package", code == 2 and "pip install huggingface_hub" in said, said)
    runs.forget()
    code, said = runs.train(runs.folder / "offline", 1, "--push_to_hub", HF_HUB_OFFLINE="1")
    runs.check("offline, nothing is started, with one note", code == 0 and said.count("push_to_hub") == 1 and "HF_HUB_OFFLINE" in said
               and not runs.calls("create"), said)
    code, said = runs.train(runs.folder / "plain", 1)
    runs.check("a run without push_to_hub asks nothing of the hub", code == 0 and not runs.calls("create"), said)


def for_servers(runs):
    out, server = fresh(runs, "plain-adapter")
    runs.train(out, 1)
    code, said = runs.run("push", out, "--hub_model_id", "o/m")
    runs.check("an adapter that every server applies gets no warning", code == 0 and "warn" not in said, said)
    out, server = fresh(runs, "rslora")
    runs.train(out, 1, "--use_rslora", "true")
    code, said = runs.run("push", out, "--hub_model_id", "o/m")
    warned = [line.split()[1] for line in said.splitlines() if line.startswith("warn ")]
    runs.check("rsLoRA: a line for each server that does not read it, with what to do", code == 0
               and warned == ["SGLang", "llama-server"] and said.count("; do: ") == 2, said)
    code, said = runs.run("export", "--model_name_or_path", FIXTURES / "tiny_llama", "--adapter_name_or_path", out, "--adapter_only",
                          "--output", "rslora.gguf")
    runs.check("hone export says that the file has the true scale", code == 0 and said.count("warn ") == 3
               and "do: serve rslora.gguf, whose scale is the true one" in said, said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-push-") as folder:
        runs = StandIn(arguments.hone.resolve(), pathlib.Path(folder), "huggingface_hub", HUB, "hub push")
        for checks in (at_the_end, while_it_runs, when_it_fails, for_servers):
            checks(runs)
    sys.exit(1 if runs.failed else 0)


main()
