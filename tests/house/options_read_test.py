#!/usr/bin/env python3
"""Every option that the table calls supported is read by code: a field that nothing reads would make it silent.

Of a row that fills a field of a plan, the field's name stands in code outside src/config; of a row without a field, its name stands in
the code of src/config that makes the plan. The rows are read from src/config/options/options_*.cpp. ANSWERED has those that another way holds,
with the way. The last test feeds a row and a field that nothing reads, so that this one cannot pass by finding nothing.

Usage: tests/house/options_read_test.py
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "src"
TABLES = ("config/options/options_", "config/commands/options_")
# name -> how it takes effect without a field that others read
LOGGER = "logger_settings and logger_variables of config/derived/finish_report.h hand it to report"
ANSWERED = {
    **{name: LOGGER for name in ("run_name", "project", "trackio_space_id", "trackio_bucket_id", "wandb_project", "wandb_entity", "wandb_run_group",
                                 "mlflow_tracking_uri", "mlflow_experiment_name")},
    "model_revision": "config/derived/check_files.cpp asks the cache of the hub for it",
    "sample_prompts": "finish_samples resolves it into sampled_texts, sampled_file and sampled_rows",
    "lora_task_type": "other values than the method's own are refused, which the row's values do",
    "remove_unused_columns": "supported in no method: ignored, or refused",
}
TEXT = re.compile(r"'(?:\\.|[^'\\])'|\"(?:\\.|[^\"\\])*\"")
COMMENT = re.compile(r"//[^\n]*")
ROW = re.compile(r"\{\s*\"([a-z_0-9]+)\",\s*\"")


def row_at(text, start):
    """From the brace at `start` to its own end."""
    depth = 0
    for found in re.finditer(r"'(?:\\.|[^'\\])'|\"(?:\\.|[^\"\\])*\"|[{}]", text[start:]):
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        if depth == 0:
            return text[start:start + found.end()]
    return text[start:]


def rows(sources):
    out = {}
    for name, text in sources.items():
        if name.startswith(TABLES) and not name.endswith("tools.cpp"):
            for found in ROW.finditer(text):
                out[found.group(1)] = row_at(text, found.start())
    return out


def unread(sources):
    """Findings `OPTION: what`."""
    plain = {name: COMMENT.sub("", text) for name, text in sources.items()}
    outside = "\n".join(TEXT.sub(" ", text) for name, text in plain.items() if not name.startswith("config/"))
    names = ("config/options/former_names.cpp", "config/options/dialects.cpp", "config/options/idle_options", "config/others/")
    inside = "\n".join(text for name, text in plain.items() if name.startswith("config/") and not name.startswith((*TABLES, *names)))
    words = set(re.findall(r"\w+", outside))
    out = []
    for name, row in rows(sources).items():
        everywhere = "option_class" not in row
        if everywhere and ("ignored(" in row or "refused(" in row):
            continue
        field = re.search(r"&\w+::(\w+)", row)
        if field and field.group(1) not in words:
            out.append(f"{name}: no code outside src/config reads {field.group(1)}")
        if not field and f'"{name}"' not in inside:
            out.append(f"{name}: no code of src/config reads it")
    return out


def report(name, findings):
    print(f"not ok {name}: {'; '.join(findings)}" if findings else f"ok {name}")
    return bool(findings)


def main():
    sources = {path.relative_to(SOURCES).as_posix(): path.read_text(encoding="utf-8") for path in SOURCES.rglob("*") if path.suffix in (".h", ".cpp")}
    found = unread(sources)
    named = {line.split(":")[0] for line in found}
    failed = report("every supported option is read", [line for line in found if line.split(":")[0] not in ANSWERED])
    failed |= report("each answer is of an option that needs one", sorted(set(ANSWERED) - named))
    broken = dict(sources)
    broken["config/options/options_test.cpp"] = '{{"idle_field", "what", &Plan::idle_field}, {"idle_name", "what", Kind::kBool, "false"}}'
    told = unread(broken)
    caught = [name for name in ("idle_field", "idle_name") if not any(line.startswith(name + ":") for line in told)]
    failed |= report("a row that nothing reads is found", [f"{name} is not" for name in caught])
    return 1 if failed else 0


sys.exit(main())
