"""A run's folder in others' hands: trainer_state.json, TensorBoard's events, the tokenizer beside the adapter."""
import json
import struct

from check_harness import FIXTURES, sft, tiny_model
from check_models import same_tokenizer

from transformers import TrainerState


def run_once(check):
    """One run with everything on; its folder, made at the first call."""
    out = check.scratch / "run"
    if not (out / "adapter_config.json").exists():
        sft(check, "run", tiny_model(check, "tiny_llama"), lora_target_modules="all-linear", report_to="tensorboard",
            eval_dataset=str(FIXTURES / "sft/eval_text.jsonl"), eval_strategy="steps", eval_steps=2, save_strategy="steps",
            save_steps=2)
    return out


def trainer_state(check):
    """Both of a checkpoint and of the end: transformers reads it, writes it again, and nothing was lost."""
    out, margin = run_once(check), []
    for folder, step in ((out / "checkpoint-2", 2), (out / "checkpoint-4", 4), (out, 4)):
        state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
        assert state.global_step == step and state.max_steps == 4, f"step {state.global_step} of {state.max_steps}"
        losses = [entry for entry in state.log_history if "loss" in entry]
        evals = [entry for entry in state.log_history if "eval_loss" in entry]
        assert len(losses) == step and len(evals) == step // 2, f"{len(losses)} losses and {len(evals)} evaluations"
        again = check.scratch / "trainer_state.json"
        state.save_to_json(str(again))
        mine, theirs = json.loads((folder / "trainer_state.json").read_text()), json.loads(again.read_text())
        assert mine == theirs, f"keys {sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))}"
        types = {key: (type(mine[key]), type(value)) for key, value in theirs.items() if type(mine[key]) is not type(value)}
        assert not types, f"types {types}"
        margin.append(f"{folder.name} {len(state.log_history)} entries")
    return ", ".join(margin)


def tensorboard(check):
    """Every number of the log is a scalar with transformers' tag, rounded to a float once."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    out = run_once(check)
    folders = {path.parent for path in out.rglob("events.out.tfevents.*")}
    assert len(folders) == 1, f"event files in {folders}"
    events = EventAccumulator(str(folders.pop()), size_guidance={"scalars": 0})
    events.Reload()
    found = {(tag, event.step): event.value for tag in events.Tags()["scalars"] for event in events.Scalars(tag)}
    to_float = lambda value: struct.unpack("f", struct.pack("f", value))[0]
    expected = {}
    for entry in json.loads((out / "trainer_state.json").read_text())["log_history"]:
        for name, value in entry.items():
            tag = f"eval/{name[5:]}" if name.startswith("eval_") else f"train/{name}"
            if name != "step":
                expected[tag, entry["step"]] = to_float(value)
    absent = {key: value for key, value in expected.items() if found.get(key) != value}
    assert not absent, f"{len(absent)} of {len(expected)} differ or are absent: {dict(list(absent.items())[:4])}; " \
                       f"tags {sorted(events.Tags()['scalars'])}"
    texts = events.Tags()["tensors"]
    return f"{len(expected)} scalars of {len(events.Tags()['scalars'])} tags equal, texts {texts}"


def metrics(check):
    """metrics.jsonl is the log_history line by line."""
    out = run_once(check)
    history = json.loads((out / "trainer_state.json").read_text())["log_history"]
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for entry in history:
        assert any(all(line.get(key) == value for key, value in entry.items()) for line in lines), f"no line for {entry}"
    return f"{len(history)} entries in {len(lines)} lines"


def tokenizer(check):
    return same_tokenizer(run_once(check), tiny_model(check, "tiny_llama"))


def cases(check):
    check.case("transformers reads trainer_state.json", trainer_state, check)
    check.case("TensorBoard reads the events", tensorboard, check)
    check.case("metrics.jsonl holds the log", metrics, check)
    check.case("AutoTokenizer reads the run's folder", tokenizer, check)
