"""report_to with the real packages, in their modes that do not connect: what each of them then holds is what metrics.jsonl holds."""
import json
import os
import subprocess

from check_harness import HONE, ROOT, tiny_model

PYTHON = ROOT / "third_party/loggers-venv/bin/python"
ENDS = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss", "total_flos")
# A program for that Python: prints [[step, {name: value}]] of all that was logged, by the package's own means where there are some.
READ = {
    # wandb's file is LevelDB's log format after 7 bytes, with its protobuf records
    "wandb": '''
import glob, struct, wandb.proto.wandb_internal_pb2 as pb
def records(path):
    data, at, part = open(path, "rb").read(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at:at + 7])
        part = data[at + 7:at + 7 + size] if kind in (1, 2) else part + data[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield part
out, config, tables = [], {}, 0
for path in sorted(glob.glob(f"{folder}/wandb/offline-run-*/run-*.wandb")):
    for raw in records(path):
        record = pb.Record()
        record.ParseFromString(raw)
        if record.HasField("run"):
            config |= {one.key: json.loads(one.value_json) for one in record.run.config.update}
            name = record.run.display_name
        if record.HasField("history"):
            values = {one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in record.history.item}
            tables += values.get("completions/_type") == "table-file"
            out.append([values["train/global_step"], {n: v for n, v in values.items() if n.startswith(("train/", "eval/"))}])
''',
    "trackio": '''
from trackio.sqlite_storage import SQLiteStorage
logs = SQLiteStorage.get_logs("mine", "first")
out = [[one["step"], {n: v for n, v in one.items() if n.startswith(("train/", "eval/"))}] for one in logs]
config, name, tables = SQLiteStorage.get_run_config("mine", "first"), "first", sum("completions" in one for one in logs)
''',
    "mlflow": '''
import mlflow
client = mlflow.MlflowClient()
(run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
out = [[one.step, {key: one.value}] for key in run.data.metrics for one in client.get_metric_history(run.info.run_id, key)]
config, name = run.data.params, run.info.run_name
tables = len(client.list_artifacts(run.info.run_id, "completions"))
''',
    "comet_ml": '''
import glob, zipfile
out, config, tables, name = [], {}, 0, None
for path in glob.glob(f"{folder}/comet/*.zip"):
    with zipfile.ZipFile(path) as archive:
        for line in archive.read("messages.json").splitlines():
            message = json.loads(line)
            payload = message["payload"]
            if message["type"] == "metric_msg" and payload["metric"]["metricName"].startswith(("train/", "eval/")):
                out.append([payload["metric"]["step"], {payload["metric"]["metricName"]: payload["metric"]["metricValue"]}])
            elif message["type"] == "parameter_msg" and "param" in payload:
                config[payload["param"]["paramName"]] = payload["param"]["paramValue"]
            elif message["type"] == "log_other" and payload.get("key") == "Name":
                name = payload["value"]
            tables += str(payload).count("completions_")
''',
}


def environment(folder):
    return os.environ | {"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "TRACKIO_DIR": str(folder / "trackio"),
                         "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db", "MLFLOW_EXPERIMENT_NAME": "mine",
                         "MLFLOW_DISABLE_TELEMETRY": "true", "COMET_START_ONLINE": "0", "COMET_OFFLINE_DIRECTORY": str(folder / "comet"),
                         "SWANLAB_MODE": "offline", "SWANLAB_LOG_DIR": str(folder / "swanlog"), "SWANLAB_PROJECT": "mine",
                         "OMP_NUM_THREADS": "1"}


def trained(check, logger):
    """A GRPO run of 4 steps with an evaluation, resumed from step 2, with tables of completions. Its folder and what it printed."""
    folder = check.folder(f"loggers/{logger}")
    folder.mkdir()
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"{a} + 3 = "}) + "\n" for a in range(8)))
    out = folder / "out"
    words = ["grpo", "--model_name_or_path", tiny_model(check, "tiny_llama"), "--dataset_name", rows, "--eval_dataset", rows,
             "--reward_funcs", "tag_count", "--use_peft", "true", "--lora_r", 4, "--bf16", "false", "--threads", 1, "--skip_doctor", "true",
             "--per_device_train_batch_size", 4, "--num_generations", 4, "--max_completion_length", 8, "--max_steps", 4, "--logging_steps", 1,
             "--save_steps", 2, "--eval_strategy", "steps", "--eval_steps", 2, "--per_device_eval_batch_size", 4, "--log_completions", "true",
             "--output_dir", out, "--report_to", logger, "--run_name", "first", "--python", PYTHON]
    words += ["--project", "mine"] if logger in ("wandb", "trackio") else []
    said = ""
    for more in ([], ["--resume_from_checkpoint", out / "checkpoint-2"]):
        done = subprocess.run([str(HONE), *map(str, words + more)], capture_output=True, text=True, cwd=folder, env=environment(folder),
                              timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        said += done.stdout
    told = [line for line in said.splitlines() if line.startswith("logger ") or "report_to" in line]
    told = [line for line in told if "sending what is left" not in line]  # a slow package at the end
    assert len(told) == 2 and all(line.startswith(f"logger    {logger}: first (") for line in told), told
    return folder, out


def expected(out, logger):
    """What transformers' callback would have logged of the lines of metrics.jsonl: [(step, name, value)]."""
    found = []
    for line in (out / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name, value in record.items():
            if name in ("step", "performance") or value is None or (logger in ("wandb", "trackio") and (name in ENDS or "train_runtime" in record)):
                continue
            if logger != "mlflow":
                name = "eval/" + name[5:] if name.startswith("eval_") else "train/" + name
            found.append((record["step"], name, value))
    return found


def ends_once(values):
    """The end of each attempt is sent, with its times, and has the epoch of the last step again: these are compared as a set."""
    ends = {one for one in values if one[1].rsplit("/", 1)[-1] in (*ENDS, "epoch")}
    return [one for one in values if one not in ends] + sorted(ends)


def logged(check, logger):
    """Names, steps and values are those of metrics.jsonl, once each, though the run was resumed; its name, options and tables are there."""
    folder, out = trained(check, logger)
    program = f"import json, sys\nfolder = sys.argv[1]\n{READ[logger]}\nprint(json.dumps([out, config, name, tables]))"
    done = subprocess.run([str(PYTHON), "-c", program, str(folder)], capture_output=True, text=True, env=environment(folder), timeout=120)
    assert done.returncode == 0, done.stderr
    records, config, name, tables = json.loads(done.stdout.splitlines()[-1])
    times = ("_runtime", "_per_second", "/runtime", "/samples_per_second", "/steps_per_second")  # of the attempt that was sent
    got = sorted((step, key, round(value, 9)) for step, values in records for key, value in values.items()
                 if key != "train/global_step" and not key.endswith(times))
    want = sorted((step, key, round(value, 9)) for step, key, value in expected(out, logger) if not key.endswith(times))
    got, want = ends_once(got), ends_once(want)
    assert got == want, f"only in {logger}: {sorted(set(got) - set(want))[:4]}, only in metrics.jsonl: {sorted(set(want) - set(got))[:4]}"
    assert name == "first", name
    assert str(config["lora_r"]) == "4" and str(config["learning_rate"]) in ("1e-06", "1e-6"), config
    assert tables >= 4, f"{tables} tables"
    return f"{len(got)} values and {tables} tables of a resumed run, each once"


def swanlab(check):
    """SwanLab's file is for its own server: the names and the number of lines are there."""
    folder, out = trained(check, "swanlab")
    files = list((folder / "swanlog").rglob("*.swanlab"))
    text = b"".join(path.read_bytes() for path in files)
    names = {name for _, name, _ in expected(out, "swanlab") if not name.startswith("train/train_") and "total_flos" not in name}
    assert files and all(name.encode() in text for name in names), f"{len(files)} files; not there: {[n for n in names if n.encode() not in text]}"
    sent = [json.loads(line) for line in (out / "hone-logger-swanlab.jsonl").read_text().splitlines()]
    lines = (out / "metrics.jsonl").read_text().splitlines()
    assert sum("crc" in one for one in sent) == len(lines) + 1, sent  # the end of each attempt
    return f"{len(names)} names in {len(files)} files, {len(lines)} lines sent once"


def cases(check):
    for logger in READ:
        check.case(f"loggers: {logger} holds what metrics.jsonl holds", logged, check, logger)
    check.case("loggers: swanlab holds what metrics.jsonl holds", swanlab, check)
