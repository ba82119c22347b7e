"""TRL's trainers, which run the program `hone` as a child: SFTTrainer, DPOTrainer, GRPOTrainer, ..."""
import collections
import functools
import inspect
import json
import os
import pathlib
import shutil
import tempfile
import types

from hone import program
from hone.errors import HoneError, Refused
from hone.trl import adapters, child, functions, models, options, plan, refusals
from hone.trl.callbacks import Callbacks, TrainerState
from hone.trl.config import config_class
from hone.trl.notebook import Progress

TrainOutput = collections.namedtuple("TrainOutput", "global_step training_loss metrics")

# The arguments of TRL 1.16's trainers, in their order.
_ROWS = ["model", "args", "data_collator", "train_dataset", "eval_dataset", "processing_class", "compute_loss_func", "compute_metrics", "callbacks",
         "optimizers", "optimizer_cls_and_kwargs", "preprocess_logits_for_metrics", "quantization_config", "peft_config", "formatting_func"]
_PAIRS = ["model", "ref_model", "args", "data_collator", "train_dataset", "eval_dataset", "processing_class", "compute_metrics", "callbacks",
          "optimizers", "quantization_config", "peft_config"]
_GROUPS = ["model", "reward_funcs", "args", "train_dataset", "eval_dataset", "processing_class", "reward_processing_classes", "callbacks",
           "optimizers", "quantization_config", "peft_config", "tools", "rollout_func", "environment_factory"]
_FREE = ["model", "args", "data_collator", "train_dataset", "eval_dataset", "processing_class", "model_init", "callbacks", "optimizers",
         "preprocess_logits_for_metrics", "peft_config", "compute_metrics"]
ARGUMENTS = {
    "SFT": _ROWS, "Reward": [name for name in _ROWS if name not in ("compute_loss_func", "formatting_func")], "DPO": _PAIRS, "KTO": _PAIRS,
    "GRPO": _GROUPS, "RLOO": [name for name in _GROUPS if name not in ("tools", "rollout_func", "environment_factory")], "CPO": _FREE, "ORPO": _FREE,
    "OnlineDPO": ["model", "ref_model", "reward_funcs", "args", "data_collator", "train_dataset", "eval_dataset", "processing_class",
                  "reward_processing_classes", "peft_config", "compute_metrics", "callbacks", "optimizers", "preprocess_logits_for_metrics", "judge"],
}
# Methods whose metrics compare with a reference: a continued adapter would be its own.
WITH_REFERENCE = ("DPO", "KTO", "OnlineDPO")
# What a run's folder holds of a model, for save_model.
MODEL_FILES = ("adapter_*", "base_adapters.json", "config.json", "generation_config.json", "model*.safetensors", "model.safetensors.index.json",
               "tokenizer*", "special_tokens_map.json", "vocab*", "merges.txt", "added_tokens.json", "chat_template*", "README.md")


class Trainer:
    """What all of them share. `_name` is TRL's: "GRPO"."""
    _name = ""

    def __init__(self, *arguments, **named):
        title = type(self).__name__
        given = self._bound(arguments, named)
        refusals.refuse_overrides(self, Trainer)
        model, args = given.pop("model", None), given.pop("args", None)
        new = models.HEADS if self._name == "Reward" else ()
        self._model = models.name_of(model, f"{title}, model", new) if model is not None else None
        self.args = self._config(args)
        self.processing_class = given.pop("processing_class", None)
        self.train_dataset, self.eval_dataset = given.pop("train_dataset", None), given.pop("eval_dataset", None)
        self._formatting = given.pop("formatting_func", None)
        self._functions = functions.Functions(title)
        self._settings = self._own_settings(given, model, title)
        callbacks = given.pop("callbacks", None)
        refusals.refuse_arguments(title, given)
        self.callback_handler = Callbacks(callbacks, self)
        self.state = TrainerState()
        self.accelerator = types.SimpleNamespace(print=print, is_main_process=True, is_local_main_process=True, process_index=0, num_processes=1)
        self.is_in_train = False
        self._stopped_in = None  # the checkpoint of a run that was stopped
        self.callback_handler.call("on_init_end")

    # ---- arguments

    def _bound(self, arguments, named):
        order = ARGUMENTS[self._name]
        if len(arguments) > len(order):
            raise TypeError(f"{type(self).__name__}() takes at most {len(order)} arguments")
        given = dict(zip(order, arguments))
        twice = [name for name in named if name in given]
        if twice:
            raise TypeError(f"{type(self).__name__}() got multiple values for argument {twice[0]!r}")
        if "tokenizer" in named:  # its name before TRL 0.12
            named["processing_class"] = named.pop("tokenizer")
        return {**given, **named}

    def _config(self, args):
        wanted = config_class(self._name)
        if args is None:
            base = pathlib.PurePath(self._model or "model").name
            return wanted(output_dir=f"{base}-{self._name}")
        if not isinstance(args, wanted):
            raise Refused(f"{type(self).__name__}, args", f"a {wanted.__name__} of hone.trl",
                          f"a {type(args).__name__} of {type(args).__module__.split('.')[0]}", f"from hone.trl import {wanted.__name__}")
        return args

    def _own_settings(self, given, model, title):
        """Options that are arguments of the trainer, without the data sets."""
        out = dict(self.args.settings())
        plan.init_kwargs(out, title)
        if self._model is not None:
            plan.take(out, {"model_name_or_path": self._model}, title)
            if "dtype" not in (out.get("model_init_kwargs") or {}):
                plan.take(out, models.settings_of(model), title)
        if out.get("model_name_or_path") is None:
            raise Refused(f"{title}, model", "a name or a path", "none")
        refusals.same_reference(given, out["model_name_or_path"], title)
        plan.take(out, refusals.tokenizer_settings(self.processing_class, out["model_name_or_path"], title), title)
        plan.take(out, adapters.quantization_settings(given.pop("quantization_config", None), title), title)
        plan.take(out, adapters.lora_settings(given.pop("peft_config", None), title), title)
        for name in ("reward_funcs", "judge"):
            if name in given and name in options.rows(options.METHODS[self._name]):
                specs = self._functions.specs(given.pop(name), judge=name == "judge")
                if name == "reward_funcs":
                    refusals.same_tokenizers(given, specs)
                    if specs is not None:
                        out.pop("reward_model_path", None)  # of the script, which opens it
                if specs is not None:
                    plan.take(out, {name: specs if name == "reward_funcs" else specs[0]}, title)
        if out.get("eval_reward_funcs") is not None:  # of args, where callables may be among them
            out["eval_reward_funcs"] = self._functions.specs(out["eval_reward_funcs"], option="eval_reward_funcs")
        if self._functions.all and "reward_timeout" not in out:
            out["reward_timeout"] = functions.TIMEOUT
        out["output_dir"] = os.fspath(self.args.output_dir) if self.args.output_dir is not None else "trainer_output"
        out.pop("resume_from_checkpoint", None)  # an argument of train(), as in transformers
        return plan.known(out, options.METHODS[self._name])

    def _row_function(self):
        if self._formatting is None:
            return None
        column = self.args.dataset_text_field

        def text(row):
            made = self._formatting(row)
            if not isinstance(made, str):
                raise Refused(f"{type(self).__name__}, formatting_func", "a text for a row", f"a {type(made).__name__}")
            return {column: made}

        return text

    # ---- the run

    @property
    def _folder(self):
        return pathlib.Path(self._settings["output_dir"])

    def train(self, resume_from_checkpoint=None, **ignored):
        """Runs to the end. Raises what a reward function or a callback raises, KeyboardInterrupt after a Ctrl-C, else HoneError."""
        program.require()
        settings = dict(self._settings)
        if resume_from_checkpoint:
            settings["resume_from_checkpoint"] = "true" if resume_from_checkpoint is True else os.fspath(resume_from_checkpoint)
        evaluated = self.eval_dataset if self._evaluates() else None
        settings.update(plan.data_settings(self._folder, self.train_dataset, evaluated, self._row_function(), type(self).__name__))
        path = plan.write(self._folder, settings)
        self.callback_handler.control.should_training_stop = False
        self._stopped_in = None
        self._first_step = 0
        self.is_in_train = True
        try:
            self._run(path)
        finally:
            self.is_in_train = False
        self.callback_handler.call("on_train_end")
        last = next((entry for entry in reversed(self.state.log_history) if "train_loss" in entry), {})
        metrics = {name: value for name, value in last.items() if name != "step"}
        return TrainOutput(self.state.global_step, metrics.get("train_loss"), metrics)

    def _evaluates(self):
        """Rows to evaluate without eval_strategy are read by nobody."""
        return self.eval_dataset is not None and (str(getattr(self.args.eval_strategy, "value", self.args.eval_strategy)) != "no"
                                                 or self.args.eval_on_start)

    def _run(self, path):
        run = child.Child([options.METHODS[self._name], "--config", path], self._answer)
        self._functions.failure = None
        try:
            code = run.run()
        except KeyboardInterrupt:
            if self._functions.failure is not None:
                raise self._functions.failure from None
            raise
        finally:
            self._functions.close()
        if self._functions.failure is not None:
            raise self._functions.failure
        stopped = code == child.INTERRUPTED and self.callback_handler.control.should_training_stop
        if code and not stopped:
            raise self._error(code, run.error_text())

    def _error(self, code, text):
        folder = self._settings["output_dir"]
        if code == child.PAUSED:
            text = f"[{folder}] the doctor has paused the run; what it found is above, and `hone explain {folder}` tells it again"
        elif code < 0:
            text = f"[{folder}] the program was killed by signal {-code}; `hone explain {folder}` says why" + (f"\n{text}" if text else "")
        elif code == child.INTERRUPTED:
            text = f"[{folder}] the run was stopped, nothing lost; continue with train(resume_from_checkpoint=True)"
        return HoneError(text or f"the program ended with code {code}", code)

    # ---- what the program says and asks

    def _answer(self, message):
        if message.get("ask") == "functions":
            return self._functions.listed()
        if message.get("ask") == "call":
            state = types.SimpleNamespace(**{**vars(self.state), **message["state"], "log_history": self.state.log_history})
            return self._functions.call(message["name"], message["arguments"], state)
        handler = getattr(self, "_on_" + str(message.get("event")), None)
        if handler is not None:
            handler(message)
        return {"stop": self.callback_handler.control.should_training_stop}

    def _on_begin(self, message):
        self._first_step = message["first_step"]
        state = TrainerState(max_steps=message["total_steps"], global_step=message["first_step"], num_train_epochs=self.args.num_train_epochs,
                             logging_steps=self.args.logging_steps, eval_steps=self.args.eval_steps, save_steps=self.args.save_steps,
                             train_batch_size=self.args.per_device_train_batch_size)
        state.log_history = self._earlier_log(message["first_step"])
        self.state = state
        self._progress = Progress(disabled=bool(self.args.disable_tqdm))
        self._progress.begin(message["first_step"], message["total_steps"])
        self.callback_handler.call("on_train_begin")
        self.callback_handler.call("on_epoch_begin")

    def _earlier_log(self, step):
        """Of a run that is resumed: what it has logged until `step`."""
        if step == 0:
            return []
        try:
            lines = (self._folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        except OSError:
            return []
        records = [json.loads(line) for line in lines if line.strip()]
        return [_entry(record) for record in records if record.get("step", step + 1) <= step and "train_runtime" not in record]

    def _on_step(self, message):
        before = int(self.state.epoch + 1e-6)
        self.state.global_step, self.state.epoch = message["step"], message["epoch"]
        self.state.num_input_tokens_seen = message["num_tokens"]
        last = self.state.log_history[-1] if self.state.log_history else {}
        self._progress.step(message["step"], f"loss {last['loss']:.4f}" if last.get("loss") is not None else "")
        self.callback_handler.call("on_step_end")
        if int(self.state.epoch + 1e-6) > before:
            self.callback_handler.call("on_epoch_end")
            if message["step"] < message["total_steps"]:
                self.callback_handler.call("on_epoch_begin")

    def _on_log(self, message):
        entry = _entry(message["record"])
        self.state.log_history.append(entry)
        logs = {name: value for name, value in entry.items() if name != "step"}
        self.callback_handler.call("on_log", logs=dict(logs))
        if any(name.startswith("eval_") for name in entry):
            self.callback_handler.call("on_evaluate", metrics=dict(logs))
            self._note_best(entry)

    def _note_best(self, entry):
        name = self.args.metric_for_best_model or ("loss" if self.args.load_best_model_at_end else None)
        value = entry.get(name if str(name).startswith("eval_") else f"eval_{name}") if name else None
        if value is None:
            return
        greater = self.args.greater_is_better
        greater = not name.endswith("loss") if greater is None else greater
        best = self.state.best_metric
        if best is None or (value > best if greater else value < best):
            self.state.best_metric, self.state.best_global_step = value, entry["step"]
            self.state.best_model_checkpoint = str(self._folder / f"checkpoint-{entry['step']}")

    def _on_save(self, message):
        if "checkpoint-" in pathlib.PurePath(message["folder"]).name:
            self._stopped_in = message["folder"]
            self.callback_handler.call("on_save")

    def _on_end(self, message):
        if not message["interrupted"]:
            self._stopped_in = None  # output_dir has the result

    # ---- afterwards

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        """The metrics of the evaluation data: those of the last step, if the run ended with an evaluation, else of a pass over them."""
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        if data is None:
            raise Refused(f"{type(self).__name__}.evaluate", "eval_dataset", "none", "pass it to the trainer or to evaluate()")
        last = next((entry for entry in reversed(self.state.log_history) if _is_evaluation(entry)), None)
        current = last is not None and last["step"] == self.state.global_step and eval_dataset is None and not isinstance(data, dict)
        if not current:
            last = self._evaluate(data)
            self.state.log_history.append(dict(last))
            self.callback_handler.call("on_evaluate", metrics=dict(last))
        return {metric_key_prefix + name[4:] if name.startswith("eval_") else name: value for name, value in last.items() if name != "step"}

    def _evaluate(self, data):
        """A run in a folder of its own that begins with an evaluation, and ends after it."""
        program.require()
        trained = self.state.global_step > 0
        settings = {name: value for name, value in self._settings.items() if name.startswith("eval_reward_") or not name.startswith(("eval_", "sample_p", "sample_s", "save_", "push_", "hub_", "load_best"))}
        if trained and (self._name in WITH_REFERENCE or (self._name in ("GRPO", "RLOO") and self.args.beta)):
            raise Refused(f"{type(self).__name__}.evaluate", "an evaluation before training, or as part of it",
                          "a policy that is compared with its reference", "set eval_strategy='steps' or 'epoch': the last evaluation is returned")
        if trained:
            settings.update(self._trained_model())
        found, wanted = [], len(data) if isinstance(data, dict) else 1

        def answer(message):
            if "event" not in message:
                return self._answer(message)
            if message["event"] == "log" and _is_evaluation(message["record"]):
                found.append(_entry(message["record"]))
                if len(found) == wanted:
                    run.process.kill()  # its folder is not kept
            return {"stop": False}

        with tempfile.TemporaryDirectory(prefix="hone-evaluation-") as folder:
            settings.update(output_dir=folder, eval_on_start=True, eval_strategy="steps", eval_steps=1, save_strategy="no", report_to="none",
                            max_steps=1, learning_rate=0.0, skip_doctor=True, warmup_steps=0)
            settings.update(plan.data_settings(folder, self.train_dataset if self.train_dataset is not None else data, data,
                                               self._row_function(), type(self).__name__))
            run = child.Child([options.METHODS[self._name], "--config", plan.write(folder, settings)], answer)
            self._functions.failure = None
            try:
                code = run.run()
            finally:
                self._functions.close()
        if self._functions.failure is not None:
            raise self._functions.failure
        if len(found) < wanted:
            raise HoneError(run.error_text() or f"the evaluation ended with code {code}", code)
        return {**{name: value for entry in found for name, value in entry.items()}, "step": self.state.global_step, "epoch": self.state.epoch}

    def _trained_model(self):
        folder = str(self._result_folder())
        return {"adapter_name_or_path": folder} if (pathlib.Path(folder) / "adapter_config.json").exists() else {"model_name_or_path": folder}

    def _result_folder(self):
        folder = pathlib.Path(self._stopped_in) if self._stopped_in else self._folder
        if not any((folder / name).exists() for name in ("adapter_config.json", "config.json")):
            raise Refused(f"{type(self).__name__}", "a model that train() has written", f"none in {folder}", "call train() first")
        return folder

    def save_model(self, output_dir=None, _internal_call=False):
        """Copies the trained adapter or model, with its tokenizer, to `output_dir`; in the run's own folder it is already."""
        source = self._result_folder()
        target = pathlib.Path(output_dir) if output_dir is not None else self._folder
        if target.exists() and target.samefile(source):
            return
        target.mkdir(parents=True, exist_ok=True)
        for pattern in MODEL_FILES:
            for path in sorted(source.glob(pattern)):
                if path.is_file():
                    shutil.copy2(path, target / path.name)

    def push_to_hub(self, commit_message=None, blocking=True, token=None, revision=None, **ignored):
        """Uploads the adapter, its tokenizer and the model card, as `hone push` does."""
        words = ["push", str(self._result_folder())]
        for name, value in (("hub_model_id", self.args.hub_model_id), ("hub_token", token or self.args.hub_token),
                            ("hub_revision", revision or self.args.hub_revision), ("hub_private_repo", self.args.hub_private_repo)):
            if value is not None:
                words += [f"--{name}", str(value).lower() if isinstance(value, bool) else str(value)]
        text = options.printed(*words)
        print(text, end="")
        return text.strip().splitlines()[-1] if text.strip() else ""

    @property
    def hub_model_id(self):
        return self.args.hub_model_id or pathlib.PurePath(self._settings["output_dir"]).name

    # ---- what scripts call beside

    def add_callback(self, callback):
        self.callback_handler.add(callback)

    def remove_callback(self, callback):
        self.callback_handler.remove(callback)

    def pop_callback(self, callback):
        return self.callback_handler.remove(callback)

    def is_world_process_zero(self):
        return True

    is_local_process_zero = is_world_process_zero

    def end(self):
        """Loggers end with the run."""

    def save_state(self):
        """trainer_state.json is in every checkpoint."""

    def log_metrics(self, split, metrics):
        print(f"***** {split} metrics *****")
        for name, value in sorted(metrics.items()):
            print(f"  {name} = {value:.4f}" if isinstance(value, float) else f"  {name} = {value}")

    def save_metrics(self, split, metrics, combined=True):
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{split}_results.json").write_text(json.dumps(metrics, indent=2, sort_keys=True) + "\n", encoding="utf-8")

    @property
    def model(self):
        raise Refused(f"{type(self).__name__}.model", "a model that the program holds", "no model in this process",
                      f"after train(), load {self._settings['output_dir']} with transformers or PEFT")


def _entry(record):
    return {name: value for name, value in record.items() if name != "performance"}


def _is_evaluation(entry):
    return any(name.startswith("eval_") for name in entry)


@functools.lru_cache(maxsize=None)
def trainer_class(name):
    """Of "GRPO": GRPOTrainer."""
    made = type(f"{name}Trainer", (Trainer,), {"_name": name, "__module__": "hone.trl"})
    made.__doc__ = f"TRL's {name}Trainer, run by hone {options.METHODS[name]}: train() writes an adapter or a model to args.output_dir."
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    made.__signature__ = inspect.Signature([inspect.Parameter(one, kind, default=None) for one in ARGUMENTS[name]])
    return made
