"""What is compared of runs with tools (tool_runs.py): all but the seconds."""
import collections
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))
from small_runs import checkpoint_content, results, timeless  # noqa: E402

ROLLOUTS = "rollouts.jsonl"


def places_of(lines):
    """{(generation, prompt, sample, index): call} of rollouts."""
    out = {}
    for batch in lines:
        samples = collections.Counter()
        for sample in batch["samples"]:
            at = sample["prompt"], samples[sample["prompt"]]
            samples[sample["prompt"]] += 1
            for index, call in enumerate(sample.get("calls", [])):
                out[(batch["generation"], *at, index)] = call
    return out


def read_lines(path):
    """Whole lines: a kill may have cut the last one."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")] if path.exists() else []


def untimed(batches):
    for batch in batches:
        for sample in batch["samples"]:
            for call in sample.get("calls", []):
                call.pop("seconds", None)
    return batches


def end_of(folder):
    """What must not differ of a run that has ended."""
    out = {name: value for name, value in results(folder).items() if not name.startswith((".hone", "checkpoint-")) and name != "log.txt"}
    out[ROLLOUTS] = untimed(read_lines(folder / ROLLOUTS))
    out.pop("hone_files.json", None)  # sizes and checksums of files, of which some hold times
    return out


def checkpoint_of(folder):
    """Its files, without the seconds of calls and of waiting for them."""
    out = checkpoint_content(folder)
    if "rollouts.json" in out:
        out["rollouts.json"] = without_seconds(json.loads(out["rollouts.json"]))
    if "watch_state.json" in out:
        out["watch_state.json"] = without_seconds(json.loads(out["watch_state.json"].splitlines()[0]))
    out.pop("hone_files.json", None)
    return out


def without_seconds(value):
    if isinstance(value, dict):
        return {key: without_seconds(part) for key, part in timeless(value).items() if key not in ("seconds", "sampling", "waiting")}
    return [without_seconds(part) for part in value] if isinstance(value, list) else value
