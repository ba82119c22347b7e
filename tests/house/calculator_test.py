#!/usr/bin/env python3
"""The calculator example: its data, reward, template and configurations; with --slow that it learns.

Usage: tests/house/calculator_test.py [--hone build/hone] [--slow]
"""
import argparse
import collections
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "calculator"
TINY = ROOT / "tests" / "fixtures" / "parity" / "tiny_llama"
LEAST_GAIN = 10  # points of held-out success between stage 1 and the end of stage 2
sys.dont_write_bytecode = True


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def make(folder, *more):
    subprocess.run([sys.executable, EXAMPLE / "make_data.py", folder, *more], check=True, stdout=subprocess.DEVNULL)
    return folder


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_data_is_the_same_for_a_seed(_, folder):
    """Another seed gives other data, and no held-out question is trained on."""
    first, again, other = (make(folder / name, "--seed", seed) for name, seed in (("a", "1"), ("b", "1"), ("c", "2")))
    found = [] if bytes_of(first) == bytes_of(again) else ["two runs with one seed differ"]
    found += [f"{name} does not depend on the seed" for name, content in bytes_of(first).items() if content == bytes_of(other)[name]]
    asked = {name: {row["prompt"][0]["content"] for row in rows(first / f"{name}.jsonl")} for name in ("train", "test")}
    both = asked["train"] & asked["test"]
    shapes = {name: {re.sub(r"\d+", "N", text) for text in texts} for name, texts in asked.items()}
    known = sum(re.sub(r"\d+", "N", row["prompt"][0]["content"]) in shapes["train"] for row in rows(first / "test.jsonl"))
    return found + [f"trained on and held out: {text}" for text in both] + ([] if known == 100 else [f"{known} of 200 held-out questions have known words"])


def numbers(question):
    return sorted(map(int, re.findall(r"\d+", question)), reverse=True)


def test_the_dialogues_show_the_form_alone(_, folder):
    """Results are the calculator's; the operation is drawn by lot, so that it is right in about a quarter of them."""
    data, calculator = make(folder / "data"), load(EXAMPLE / "make_data.py").calculator
    found, operations = [], collections.Counter()
    for row in rows(data / "dialogues.jsonl"):
        question, call, given, last = row["messages"]
        expression = call["tool_calls"][0]["function"]["arguments"]["expression"]
        operations[re.sub(r"\d+", "N", question["content"]), expression.split()[1]] += 1
        if calculator(expression) != given["content"] or last["content"] != f"The answer is {given['content']}." or \
                numbers(question["content"]) != numbers(expression):
            found.append(f"a dialogue that is no dialogue: {row['messages']}")
    of_words = collections.Counter()
    for (words, _operation), count in operations.items():
        of_words[words] += count
    return found + [f"{words} is always {operation}" for (words, operation), count in operations.items() if count > 0.75 * of_words[words]]


def test_the_answers_are_the_calculators(_, folder):
    data, maker, found = make(folder / "data"), load(EXAMPLE / "make_data.py"), []
    for row in rows(data / "train.jsonl") + rows(data / "test.jsonl"):
        a, b = numbers(row["prompt"][0]["content"])
        if row["answer"] not in {maker.calculator(f"{a} {operation} {b}") for operation in maker.WORDS}:
            found.append(f"no operation on its numbers gives the answer: {row}")
    return found


def test_the_reward_wants_the_tool_and_its_answer(*_):
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "calculator", "arguments": {}}}]}
    given = lambda text: {"role": "tool", "name": "calculator", "content": text}
    says = lambda text: {"role": "assistant", "content": text}
    cases = [([call, given("48768"), says("The answer is 48,768.")], 1.0), ([call, given("48768"), says("It is 48768")], 1.0),
             ([says("The answer is 48768.")], 0.0), ([call, given("48769"), says("The answer is 48768.")], 0.0),
             ([call, given("48768"), says("The answer is 4876.")], 0.0), ([call, given("48768"), says("I do not know.")], 0.0),
             ([call, given("48768")], 0.0), ([call, given("48768"), dict(call, content="48768")], 0.0),
             ([call, given("1"), call, given("48768"), says("48768.")], 1.0)]
    scores = load(EXAMPLE / "reward.py").used_calculator([turns for turns, _ in cases], ["48768"] * len(cases), prompts=None)
    return [f"{turns}: expected {wanted}, found {score}" for (turns, wanted), score in zip(cases, scores) if score != wanted]


def checked(hone, folder, name):
    """`hone check` of a stage, of a tiny model in place of SmolLM2, with an adapter folder in place of that of stage 1."""
    text = (EXAMPLE / f"{name}.yaml").read_text(encoding="utf-8")
    file = folder / f"{name}.yaml"
    file.write_text(re.sub(r"(?m)^model_name_or_path: .*$", f"model_name_or_path: {TINY}", text), encoding="utf-8")
    done = subprocess.run([hone, "check", file.name], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_configurations_check(args, folder):
    (folder / "examples").symlink_to(ROOT / "examples")
    make(folder / "runs" / "calculator" / "data")
    stage_1 = folder / "runs" / "calculator" / "sft"
    stage_1.mkdir(parents=True)
    (stage_1 / "adapter_config.json").write_text("{}", encoding="utf-8")
    said = {name: checked(args.hone.resolve(), folder, name) for name in ("sft", "grpo")}
    found = [f"{name}.yaml: {text[-600:]}" for name, text in said.items() if not re.search(r"result .* 0 renamed, 0 ignored, 0 refused", text)]
    shown = [line.strip(" |") for line in said["sft"].splitlines()]
    wanted = rows(folder / "runs" / "calculator" / "data" / "dialogues.jsonl")[0]["messages"]
    call = wanted[1]["tool_calls"][0]["function"]
    return found + [f"the first dialogue is not shown with {line}" for line in (
        f'<tool_call>{{"name": "calculator", "arguments": {json.dumps(call["arguments"])}}}</tool_call><|im_end|>', f"{wanted[2]['content']}<|im_end|>",
        f"{wanted[3]['content']}<|im_end|>") if line not in shown]


def test_the_curve_is_a_table_of_the_runs(_, folder):
    logged = {"before": [(0, 0.0, 0.5, 80)], "grpo": [(0, 0.2, 0.9, 44), (10, 0.405, 1.0, 41.6)]}
    for run, entries in logged.items():
        (folder / run).mkdir()
        lines = [{"step": step, "eval_rewards/used_calculator/mean": success, "eval_tools/call_frequency": calls, "eval_completions/mean_length": length}
                 for step, success, calls, length in entries]
        (folder / run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"step": 7, "loss": 1.0}]), encoding="utf-8")
    lines = load(EXAMPLE / "curve.py").table(folder)
    wanted = ["| before | 0 % | 0.50 | 80 |", "| SFT | 20 % | 0.90 | 44 |", "| GRPO step 10 | 40 % | 1.00 | 42 |"]
    return [] if lines[2:] == wanted else ["\n".join(lines)]


def shares(output):
    """{row of the printed table: success in percent}."""
    return {cells[1].strip(): int(cells[2].strip(" %")) for cells in (line.split("|") for line in output.splitlines())
            if len(cells) == 6 and cells[2].strip().endswith("%")}


def test_it_learns(args, _):
    if not (ROOT / "models" / "smollm2-gguf").exists():
        return "skip: SmolLM2 is not there; ./quickstart fetches it"
    done = subprocess.run([EXAMPLE / "run", "--hone", args.hone.resolve()], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"examples/calculator/run ended with {done.returncode}: {(done.stdout + done.stderr)[-800:]}"]
    found = list(shares(done.stdout).items())
    (_, before), (_, stage_1), (_, last) = found[0], found[1], found[-1]
    return [] if before < stage_1 and stage_1 + LEAST_GAIN <= last else [f"held-out success did not grow: {found}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", type=pathlib.Path, default=ROOT / "build" / "hone")
    parser.add_argument("--slow", action="store_true")
    args = parser.parse_args()
    failed = False
    for name, test in [(n, f) for n, f in globals().items() if n.startswith("test_")]:
        if name == "test_it_learns" and not args.slow:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                findings = test(args, pathlib.Path(folder))
            except Exception as error:  # a test that raises has failed, whatever it raised
                findings = [f"{type(error).__name__}: {error}"]
        if isinstance(findings, str):
            print(f"skip {name[5:]}: {findings.removeprefix('skip: ')}")
        else:
            failed = failed or bool(findings)
            print("\n  ".join([f"not ok {name[5:]}", *findings]) if findings else f"ok {name[5:]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
