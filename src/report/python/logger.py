"""Sends a run's metrics to one logger (wandb, trackio, mlflow, comet_ml, swanlab), with the user's own package and account.

Descriptor 3 is a socket to hone (report/loggers.h). The first line that comes is the settings, as JSON:
  logger, folder, fresh, follow, seconds, run_name, project, config, tables, unique_prompts, trackio_*, private
With `follow` it reads metrics.jsonl while the run writes it, until hone says {"end": "finished" | "stopped"} or is gone; then, or without
`follow`, it sends what is left and ends, within `seconds` where they are above 0. It answers in lines of JSON:
  {"run": where the user finds it}, {"failed": a sentence}, {"absent": a sentence}, {"sent": lines, "known": lines sent before}

Names and values are those of transformers' callbacks (integrations/integration_utils.py).

RUN/hone-logger-NAME.jsonl remembers the logger's run and what it was sent: first {"run": ..., "name": ...}, then a line for each line of
metrics.jsonl, {"step", "crc"}, {"table": step} for each table of completions, {"samples": step} for those of sample_prompts. A resumed run goes on in the same run of the logger, and
what it repeats is not sent again. When it repeats a step with other numbers, it is another run, and gets one of its own.
"""
import faulthandler
import importlib.util
import json
import os
import re
import socket
import sys
import threading
import zlib

sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]  # a file of the working folder is never imported

ENDS = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss", "total_flos")  # transformers' single values
MOST_READ = 1 << 22  # bytes of metrics at a time


class Channel:
    """Lines of JSON from and to hone. `end` is set when the run has ended, or hone is gone."""

    def __init__(self):
        self.socket = socket.socket(fileno=3)
        self.socket.set_inheritable(False)
        self.lines = self.socket.makefile("r", encoding="utf-8", errors="replace")
        self.settings = json.loads(self.lines.readline())
        self.end = threading.Event()
        self.status = "stopped"
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            line = self.lines.readline()
            self.status = json.loads(line)["end"] if line else "stopped"
        except (OSError, ValueError, KeyError):
            pass
        if self.settings["follow"]:
            self.limit()
        self.end.set()
        if not line:
            self.say = lambda **message: None  # nobody listens

    def limit(self):
        """Whatever a package does, this process ends by then: faulthandler's timer needs no interpreter."""
        if self.settings["seconds"] > 0:
            faulthandler.dump_traceback_later(self.settings["seconds"], exit=True, file=2)

    def say(self, **message):
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass


def sentence(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


# ---- what was sent before

class Sent:
    """hone-logger-NAME.jsonl."""

    def __init__(self, path, fresh):
        self.path, self.head, self.lines, self.end, self.table, self.samples = path, {}, [], None, 0, -1
        if fresh and os.path.exists(path):
            os.remove(path)
        if os.path.exists(path):
            self.read()
        self.file = open(path, "a", encoding="utf-8")

    def read(self):
        whole = 0
        with open(self.path, "rb") as file:
            for line in file:
                try:
                    entry = json.loads(line) if line.endswith(b"\n") else None
                except ValueError:
                    entry = None
                if not isinstance(entry, dict):  # of a process that was killed
                    break
                whole += len(line)
                if "run" in entry:
                    self.head = entry
                elif "table" in entry:
                    self.table = entry["table"]
                elif "samples" in entry:
                    self.samples = entry["samples"]
                elif entry.get("end"):
                    self.end = entry["crc"]
                else:
                    self.lines.append(entry["crc"])
        os.truncate(self.path, whole)

    def write(self, **entry):
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()

    def begin(self, run, name):
        if self.head.get("run") != run:
            self.head = {"run": run, "name": name}
            self.write(**self.head)

    def clear(self):
        self.file.close()
        os.remove(self.path)
        self.__init__(self.path, fresh=True)


def crc_of(record):
    """Of what a repeated step has too: not the times."""
    kept = {name: value for name, value in record.items() if not name.endswith(("_runtime", "_per_second")) and name != "performance"}
    return zlib.crc32(json.dumps(kept, sort_keys=True).encode())


class Lines:
    """The records of metrics.jsonl as they come. That of a run's end is taken away when the run is continued, so it is only looked at."""

    def __init__(self, path):
        self.path, self.at, self.end = path, 0, None

    def read(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.at)
                data = file.read(MOST_READ)
        except OSError:
            return []
        records, self.end = [], None
        for line in data.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if isinstance(record, dict) and "train_runtime" in record and self.at + len(line) == os.path.getsize(self.path):
                self.end = record
                break
            self.at += len(line)
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                records.append(record)
        return records


# ---- the loggers

def values_of(record):
    return {name: value for name, value in record.items() if name != "step" and isinstance(value, (int, float))}


def rewritten(values):
    """transformers' rewrite_logs."""
    out = {}
    for name, value in values.items():
        kind = next((kind for kind in ("eval", "test") if name.startswith(kind + "_")), None)
        out[f"{kind}/{name[len(kind) + 1:]}" if kind else f"train/{name}"] = value
    return out


def without_ends(values):
    return {name: value for name, value in values.items() if name not in ENDS}


class Wandb:
    package = "wandb"

    def start(self, settings, run):
        import wandb
        self.wandb = wandb
        resumed = {"id": run, "resume": "allow"} if run else {}
        self.run = wandb.init(project=os.getenv("WANDB_PROJECT") or settings["project"], name=settings["run_name"], config=settings["config"],
                              settings=wandb.Settings(console="off"), **resumed)
        wandb.define_metric("train/global_step")
        wandb.define_metric("*", step_metric="train/global_step", step_sync=True)
        place = self.run.url or f"offline, in {os.path.dirname(self.run.dir)}; `wandb sync` uploads it"
        return self.run.id, self.run.name or self.run.id, place

    def log(self, step, values):
        for name in ENDS:
            if name in values:
                self.run.summary[name] = values[name]
        values = without_ends(values)
        if set(values) - {"epoch"}:
            self.wandb.log({**rewritten(values), "train/global_step": step})

    def table(self, step, columns, rows, name="completions"):
        self.wandb.log({name: self.wandb.Table(columns=columns, data=rows, allow_mixed_types=True), "train/global_step": step})

    def finish(self, status):
        self.wandb.finish(exit_code=0 if status == "finished" else 1)


class Trackio:
    package = "trackio"

    def start(self, settings, run):
        import trackio
        self.trackio = trackio
        self.run = trackio.init(project=settings["project"], name=run or settings["run_name"], space_id=settings["trackio_space_id"],
                                bucket_id=settings["trackio_bucket_id"], private=settings["private"],
                                resume="allow" if run else "never", config=settings["config"], auto_log_gpu=False, auto_log_cpu=False, embed=False)
        space = settings["trackio_space_id"] or os.getenv("TRACKIO_SPACE_ID")
        place = f"https://huggingface.co/spaces/{space}" if space else f"`trackio show --project {settings['project']}` shows it"
        return self.run.name, self.run.name, place

    def log(self, step, values):
        values = without_ends(values)
        if set(values) - {"epoch"}:
            self.trackio.log({**rewritten(values), "train/global_step": step}, step=step)

    def table(self, step, columns, rows, name="completions"):
        import pandas
        self.trackio.log({name: self.trackio.Table(dataframe=pandas.DataFrame(rows, columns=columns))}, step=step)

    def finish(self, status):
        self.trackio.finish()


class Mlflow:
    package = "mlflow"

    def start(self, settings, run):
        import mlflow
        self.mlflow = mlflow
        name = os.getenv("MLFLOW_EXPERIMENT_NAME")
        if name:
            mlflow.set_experiment(name)
        run = run or os.getenv("MLFLOW_RUN_ID")
        active = mlflow.start_run(run_id=run, run_name=None if run else settings["run_name"])
        longest = mlflow.utils.validation.MAX_PARAM_VAL_LENGTH
        parameters = [(name, value) for name, value in settings["config"].items() if len(str(value)) <= longest]
        known = active.data.params if run else {}
        parameters = [(name, value) for name, value in parameters if name not in known]  # mlflow refuses to change one
        most = mlflow.utils.validation.MAX_PARAMS_TAGS_PER_BATCH
        for first in range(0, len(parameters), most):
            mlflow.log_params(dict(parameters[first:first + most]))
        if os.getenv("MLFLOW_TAGS"):
            mlflow.set_tags(json.loads(os.environ["MLFLOW_TAGS"]))
        return active.info.run_id, active.info.run_name, mlflow.get_tracking_uri()

    def log(self, step, values):
        self.mlflow.log_metrics({re.sub(r"[^0-9A-Za-z_\-\.\ :/]", "_", name): value for name, value in values.items()}, step=step)

    def table(self, step, columns, rows, name="completions"):
        named = {column: [row[index] for row in rows] for index, column in enumerate(columns)}
        self.mlflow.log_table(named, artifact_file=f"{name}/{name}_{step:05}.json")

    def finish(self, status):
        self.mlflow.end_run("FINISHED" if status == "finished" else "KILLED")


class Comet:
    package = "comet_ml"

    def start(self, settings, run):
        import comet_ml
        mode = (os.getenv("COMET_MODE") or "").lower()
        quiet = dict(auto_output_logging=False, log_code=False, auto_param_logging=False, auto_metric_logging=False, display_summary_level=0)
        online = None
        if os.getenv("COMET_START_ONLINE"):
            online = os.environ["COMET_START_ONLINE"].lower() not in ("0", "false", "no", "off")
        self.run = comet_ml.start(experiment_key=run, online=online, mode=mode if mode in ("get", "get_or_create", "create") else None,
                                  project_name=os.getenv("COMET_PROJECT_NAME"),
                                  experiment_config=comet_ml.ExperimentConfig(name=settings["run_name"], **quiet))
        self.run.log_parameters(settings["config"])
        return self.run.get_key(), self.run.get_name() or self.run.get_key(), self.run.url or "offline; `comet upload` sends it"

    def log(self, step, values):
        self.run.log_metrics(rewritten(values), step=step, epoch=values.get("epoch"))

    def table(self, step, columns, rows, name="completions"):
        self.run.log_table(f"{name}_{step:05}.csv", tabular_data=rows, headers=columns)

    def finish(self, status):
        self.run.end()


class Swanlab:
    package = "swanlab"

    def start(self, settings, run):
        project = os.environ.pop("SWANLAB_PROJECT", None)  # transformers' variable; swanlab 0.10 itself does not understand it
        import swanlab
        self.swanlab = swanlab
        named = {"id": run, "resume": "allow"} if run else {}
        if settings["run_name"]:
            named["experiment_name"] = settings["run_name"]
        self.run = swanlab.init(project=project, config=settings["config"], **named)
        try:
            place = self.run.url
        except ValueError:  # there is none in the modes that do not connect
            place = f"{os.getenv('SWANLAB_MODE')}; `swanlab sync` uploads it"
        return self.run.id, settings["run_name"] or self.run.id, place

    def log(self, step, values):
        ends = {f"single_value/{name}": values[name] for name in ENDS if name in values}
        values = without_ends(values)
        if set(values) - {"epoch"}:
            ends |= {**rewritten(values), "train/global_step": step}
        self.swanlab.log(ends, step=step)

    def table(self, step, columns, rows, name="completions"):
        texts = [self.swanlab.Text("\n".join(f"{column}: {value}" for column, value in zip(columns, row))) for row in rows]
        self.swanlab.log({name: texts}, step=step)

    def finish(self, status):
        self.swanlab.finish(**({} if status == "finished" else {"state": "aborted"}))


def plain_table(rows):
    """Columns, and a list of values for each row."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if isinstance(rows[0].get("completion"), list):
        columns.remove("spans")  # the dialogue once more
    return columns, [[json.dumps(v) if isinstance(v, (list, dict)) else v for v in map(row.get, columns)] for row in rows]


# ---- the run

class Sender:
    def __init__(self, channel, logger):
        self.channel, self.settings, self.logger = channel, channel.settings, logger
        folder = self.settings["folder"]
        self.sent = Sent(os.path.join(folder, f"hone-logger-{logger.package}.jsonl"), self.settings["fresh"])
        self.known, self.new, self.index = 0, 0, 0
        self.lines = Lines(os.path.join(folder, "metrics.jsonl"))
        self.tables, self.samples, self.read_samples = os.path.join(folder, "completions"), os.path.join(folder, "samples.jsonl"), 0
        self.started = False
        if self.settings["follow"]:  # the user sees at once where the run is
            self.begin()

    def begin(self):
        """Starts the logger's run, or goes on in it; does nothing the second time."""
        if self.started:
            return
        self.started = True
        run, name, place = self.logger.start(self.settings, self.sent.head.get("run"))
        self.sent.begin(run, name)
        self.channel.say(run=f"{name} ({place})" if name else place)

    def begin_another(self, step):
        """The numbers of a repeated step differ: the run was continued from an earlier one with other options."""
        if self.started:
            self.logger.finish("stopped")
        self.started = False
        name = self.settings["run_name"]
        self.settings["run_name"] = f"{name} from step {step}" if name else None
        self.sent.clear()
        self.lines.at, self.index, self.known, self.read_samples = 0, 0, 0, 0

    def send(self):
        for record in self.lines.read():
            crc = crc_of(record)
            if self.index < len(self.sent.lines):
                if crc != self.sent.lines[self.index]:
                    self.begin_another(record["step"])
                    return self.send()
                self.known += 1
            else:
                self.begin()
                self.send_tables(record["step"])
                self.send_samples(record["step"] - 1)
                self.logger.log(record["step"], values_of(record))
                self.sent.write(step=record["step"], crc=crc)
                self.sent.lines.append(crc)
                self.new += 1
            self.index += 1

    def send_end(self):
        end = self.lines.end
        if end is None:
            return
        crc = zlib.crc32(json.dumps(end, sort_keys=True).encode())
        if crc == self.sent.end:
            self.known += 1
            return
        self.begin()
        self.send_tables(end["step"])
        self.send_samples(end["step"])
        self.logger.log(end["step"], values_of(end))
        self.sent.write(step=end["step"], crc=crc, end=True)
        self.new += 1

    def send_tables(self, step):
        """Completions of the steps up to `step`; their files are whole when it is logged."""
        if not self.settings["tables"]:
            return
        names = os.listdir(self.tables) if os.path.isdir(self.tables) else []
        numbers = {int(found[1]): name for name in names if (found := re.fullmatch(r"completions_(\d+)\.jsonl", name))}
        for number in sorted(number for number in numbers if self.sent.table < number <= step):
            with open(os.path.join(self.tables, numbers[number]), encoding="utf-8") as file:
                rows = [json.loads(line) for line in file]
            if self.settings["unique_prompts"]:
                rows = list({json.dumps(row.get("prompt")): row for row in reversed(rows)}.values())[::-1]
            if rows:
                self.logger.table(number, *plain_table(rows))
            self.sent.table = number
            self.sent.write(table=number)

    def send_samples(self, step):
        """Samples of the steps up to `step`, all of whose lines are written."""
        size = os.path.getsize(self.samples) if os.path.isfile(self.samples) else 0
        if size == self.read_samples:
            return
        self.read_samples, steps = size, {}
        with open(self.samples, encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.endswith("\n"):
                    break
                row = json.loads(line)
                steps.setdefault(row["step"], []).append(row)
        for number in sorted(number for number in steps if self.sent.samples < number <= step):
            self.logger.table(number, *plain_table(steps[number]), name="samples")
            self.sent.samples = number
            self.sent.write(samples=number)
        if any(number > step for number in steps):
            self.read_samples = 0  # again with the next record

    def run(self):
        status = "finished"
        if self.settings["follow"]:
            while not self.channel.end.wait(0.5):
                self.send()
            status = self.channel.status
        before = -1
        while before != self.lines.at:  # MOST_READ at a time
            before = self.lines.at
            self.send()
        self.send_end()
        if self.started:
            self.logger.finish(status)
        self.channel.say(sent=self.new, known=self.known)


def main():
    channel = Channel()
    os.nice(5)  # the run comes first
    logger = {kind.package: kind for kind in (Wandb, Trackio, Mlflow, Comet, Swanlab)}[channel.settings["logger"]]()
    if importlib.util.find_spec(logger.package) is None:
        channel.say(absent=f"the package {logger.package} is not installed for this Python; `pip install {logger.package}` adds it")
        return
    try:
        Sender(channel, logger).run()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a package does is told in a sentence
        channel.say(failed=sentence(error))
        os._exit(1)  # not its own clean-up, which may wait for the network


main()
