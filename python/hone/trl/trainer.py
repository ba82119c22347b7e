"""TRL's trainers, which run the program `hone` as a child: SFTTrainer, DPOTrainer, GRPOTrainer, ..."""
import collections
import functools
import inspect
import json
import os
import pathlib
import types

from hone import program
from hone.errors import HoneError, Refused, RefusedName
from hone.trl import adapters, again, attributes, child, contradictions, families, functions, models, options, own_layers, own_metrics, plan
from hone.trl import references, refusals, reward_models, rollout, rows, settled, states, streams, tokenizers, tools, training_arguments, verdicts
from hone.trl.accelerator import Accelerator
from hone.trl.callbacks import Callbacks, TrainerState
from hone.trl.config import config_class
from hone.trl.data_sets import Data
from hone.trl.evaluation import is_evaluation
from hone.trl.notebook import Progress
from hone.trl.optimizers import settings_of as optimizer_settings
from hone.trl.results import Results, entry_of
from hone.trl.reward_models import RewardModels
from hone.trl.sampling import Masks, Sampling
from hone.trl.trained_model import TrainedModel

TrainOutput = collections.namedtuple("TrainOutput", "global_step training_loss metrics")

# Options whose values this process has written for a run.
OF_OBJECTS = ("model_name_or_path", "model_revision", "dtype", "tokenizer_name_or_path", "adapter_name_or_path", "unfrozen_parameters",
              "reward_funcs", "ref_model", "ref_model_dtype")

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
    "GRPO": _GROUPS, "GMPO": _GROUPS, "RLOO": [name for name in _GROUPS if name not in ("tools", "rollout_func", "environment_factory")],
    "CPO": _FREE, "ORPO": _FREE,
    "Distillation": ["model", "teacher_model", "args", "train_dataset", "eval_dataset", "processing_class", "callbacks", "optimizers",
                     "quantization_config", "peft_config", "tools"],
    "GKD": ["model", "teacher_model", "args", "data_collator", "train_dataset", "eval_dataset", "processing_class", "compute_metrics", "callbacks",
            "optimizers", "preprocess_logits_for_metrics", "peft_config", "formatting_func"],
    "OnlineDPO": ["model", "ref_model", "reward_funcs", "args", "data_collator", "train_dataset", "eval_dataset", "processing_class",
                  "reward_processing_classes", "peft_config", "compute_metrics", "callbacks", "optimizers", "preprocess_logits_for_metrics", "judge"],
}


class Names(type):
    """Of the trainers: names that TRL's classes have, asked of the class itself, are refused as those of an object are."""

    def __getattr__(cls, name):
        try:
            attributes.missing(attributes.TRAINER, name, cls.__name__)
        except Refused as error:
            raise RefusedName(*error.parts) from None
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


class Trainer(Data, RewardModels, Sampling, Results, tools.WithTools, rollout.WithRollout, metaclass=Names):
    """What all of them share. `_name` is TRL's: "GRPO"."""
    _name = ""

    def __init__(self, *arguments, **named):
        title = type(self).__name__
        given = self._bound(arguments, named)
        refusals.refuse_overrides(self, Trainer)
        model, args = models.uncompiled(given.pop("model", None)), given.pop("args", None)
        if model is not None and not models.is_named(model):
            states.refuse_unknown(model, f"{title}, model", method=self._name)
            states.refuse_inside(models.base_of(model), f"{title}, model", self._name)
            models.refuse_sampling(models.base_of(model), f"{title}, model", self._name)
        self._begun = model if model is not None and models.is_wrapped(model) else None  # its adapter is what the run begins with
        self.args = self._config(args, model)
        if self.args.output_dir is None:
            self.args.output_dir = "trainer_output"  # transformers' default, which scripts read in args
        self._given_tokenizer, self._tokenizer = given.pop("processing_class", None), tokenizers.Taken()
        self.train_dataset, self.eval_dataset = given.pop("train_dataset", None), given.pop("eval_dataset", None)
        self._formatting = given.pop("formatting_func", None)
        self._peft_config = given.get("peft_config") or (next(iter(model.peft_config.values())) if self._begun is not None else None)
        self._functions = functions.Functions(title)
        self._tools = tools.Tools(self._functions)
        self._rollout = rollout.Rollout(self._functions)
        self._given_rewards = given.get("reward_funcs")
        self._given_reference = given.get("ref_model")
        self._settings = self._own_settings(given, model, title)
        if hasattr(self._given_tokenizer, "get_vocab"):
            tokenizers.finished(self._given_tokenizer, self.args)
        self._of_args = self.args.settings()
        self._settle_tools(title)
        rows.refuse_splits(self._train_rows, f"{title}, train_dataset")
        if self._evaluates():
            rows.refuse_several(self._eval_rows, self._name in models.SAMPLERS, f"{title}, eval_dataset")
        streams.settle(self.args, self._train_rows, self._eval_rows, self._name, title)
        streams.refuse_endless(self._train_rows, self.args, title)
        if self._name == "SFT":
            rows.refuse_transform(self._train_rows, f"{title}, train_dataset")
            rows.refuse_transform(self._eval_rows, f"{title}, eval_dataset")
        callbacks = given.pop("callbacks", None)
        self._own_metrics = own_metrics.taken(given, ARGUMENTS[self._name], self.args, title)
        refusals.refuse_arguments(title, given)
        refusals.refuse_formatting(self._formatting, self.args, self._train_rows, title)
        self.callback_handler = Callbacks(callbacks, self)
        if self._name == "Reward":
            contradictions.refuse_labels(model, title)
            contradictions.warn_of_head(self._peft_config, title)
        contradictions.refuse(self._name, title, self.args, self._settings, self._train_rows, self._eval_rows, self._tools.has_reward())
        families.refuse(model, self._settings, title)
        self.state = TrainerState()
        self._metrics = {"train": collections.defaultdict(list), "eval": collections.defaultdict(list)}
        self.accelerator = Accelerator(self)
        self.is_in_train = False
        self._trained = TrainedModel(self, None if model is None or models.is_named(model) else model)
        self._stopped_in = None  # the checkpoint of a run that was stopped
        self._ran = None         # the options of the last run that ended
        self._program = None     # the newest run of the program
        self.callback_handler.call("on_init_end")

    # ---- what else TRL's trainers have (attributes.py)

    def __getattr__(self, name):
        if name in attributes.OPTIONS and hasattr(self.args, attributes.OPTIONS[name]):
            return settled.value_of(self, name, getattr(self.args, attributes.OPTIONS[name]))
        others = name in attributes.OPTIONS or name in reward_models.ATTRIBUTES  # of trainers that this one is none of
        return attributes.missing({} if others else attributes.TRAINER, name, type(self).__name__)

    def __setattr__(self, name, value):
        """An attribute that TRL's trainer would read, and the program cannot, is no place for a value."""
        row = attributes.TRAINER.get(name)
        if row is not None and row.use == attributes.REFUSED and value is not None:
            attributes.refuse(name, type(self).__name__, row)
        if name in refusals.INSTEAD and not (name == "rollout_func" and name in ARGUMENTS[self._name]):
            refusals.refuse_arguments(type(self).__name__, {name: value})
        if name in ("model", "model_wrapped", "ref_model") or (name == "accelerator" and name in vars(self)):
            attributes.refuse(name, type(self).__name__, attributes.Row(attributes.REFUSED, "make a trainer of the other model"))
        if name == "reward_funcs":
            attributes.refuse(name, type(self).__name__, attributes.Row(attributes.REFUSED, "make a trainer with the other functions"))
        if name in attributes.OPTIONS and getattr(getattr(type(self), name, None), "fset", None) is None:
            setattr(self.args, attributes.OPTIONS[name], value)
            return
        object.__setattr__(self, name, value)

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

    def _config(self, args, model):
        wanted = config_class(self._name)
        args = training_arguments.converted(args, wanted)
        if args is None:
            base = pathlib.PurePath(states.name_of(model, "") if model is not None else "model").name
            return wanted(output_dir=f"{base}-{self._name}")
        if not isinstance(args, wanted):
            raise Refused(f"{type(self).__name__}, args", f"a {wanted.__name__} of hone.trl",
                          f"a {type(args).__name__} of {type(args).__module__.split('.')[0]}", f"from hone.trl import {wanted.__name__}")
        return args

    def _own_settings(self, given, model, title):
        """Options that are arguments of the trainer, without the data sets."""
        out = dict(self.args.settings())
        plan.init_kwargs(out, title)
        out |= tokenizers.template_settings(out)
        out["output_dir"] = self._output_folder()
        inputs = pathlib.Path(out["output_dir"]) / plan.FOLDER
        if model is not None:
            plan.take(out, {"model_name_or_path": states.name_of(model, inputs)}, title)
            if "dtype" not in (out.get("model_init_kwargs") or {}):
                plan.take(out, states.settings_of(model, title), title)
        if out.get("model_name_or_path") is None:
            raise Refused(f"{title}, model", "a name or a path", "none")
        self._reference, named = references.take(given, model, out["model_name_or_path"], inputs, title, self._name)
        plan.take(out, named, title)
        plan.take(out, references.take_teacher(given, out, title, self._name), title)
        self._tokenizer = tokenizers.taken(self._given_tokenizer, out["model_name_or_path"], title, states.rows_of_embedding(model))
        plan.take(out, self._tokenizer.settings(inputs), title)
        if self._begun is not None:
            refusals.refuse_second_adapter(given, out, title)
            plan.take(out, {"use_peft": True, "adapter_name_or_path": os.fspath(inputs / "adapter")}, title)
        out |= optimizer_settings(given, model, self.args, title)  # args have other values in silence, as in transformers
        plan.take(out, adapters.quantization_settings(given.pop("quantization_config", None), title), title)
        plan.take(out, adapters.lora_settings(given.pop("peft_config", None), title), title)
        if self._reference is not None:
            references.refuse_quantized(self._reference, out, title)
        if models.is_model(model) and not out.get("use_peft") and not out.get("unfrozen_parameters"):
            models.trained_parameters(model, title)  # what of it cannot be said in options
        for name in ("reward_funcs", "judge"):
            if name in given and name in options.rows(options.METHODS[self._name]):
                specs = self._functions.specs(given.pop(name), judge=name == "judge")
                if name == "reward_funcs":
                    self._reward_classes = reward_models.classes_of(given.pop("reward_processing_classes", None), self._given_rewards, title)
                    if specs is not None:
                        out.pop("reward_model_path", None)  # of the script, which opens it
                if specs is not None:
                    plan.take(out, {name: specs if name == "reward_funcs" else specs[0]}, title)
        if out.get("eval_reward_funcs") is not None:  # of args, where callables may be among them
            out["eval_reward_funcs"] = self._functions.specs(out["eval_reward_funcs"], option="eval_reward_funcs")
        if self._functions.all and "reward_timeout" not in out:
            out["reward_timeout"] = functions.TIMEOUT
        plan.take(out, self._rollout.take(given, ARGUMENTS[self._name]), title)
        plan.take(out, self._tools.take(given, out, ARGUMENTS[self._name]), title)
        out.pop("resume_from_checkpoint", None)  # an argument of train(), as in transformers
        return plan.known(out, options.METHODS[self._name])

    def _row_function(self):
        if self._formatting is None:
            return None
        return refusals.formatting(self._formatting, self.args.dataset_text_field)

    def _changed_args(self):
        """What was set in args after the trainer was made: TRL reads them when train() begins."""
        now, before = self.args.settings(), self._of_args
        changed = {name: value for name, value in now.items() if name not in before or before[name] != value}
        plan.init_kwargs(changed, type(self).__name__)
        if "output_dir" in changed:
            raise Refused(f"{type(self).__name__}.args.output_dir", "the folder that the trainer was made with", repr(changed["output_dir"]),
                          "set it before the trainer is made")
        self._of_args = {**now}
        return plan.known(changed, options.METHODS[self._name])

    def _objects_in(self, folder):
        """The objects of this process, written for a run whose output_dir is `folder`; the options that name them."""
        inputs, title = pathlib.Path(folder) / plan.FOLDER, type(self).__name__
        self._tokenizer.write(inputs)
        out = self._tokenizer.settings(inputs)
        if self._begun is not None:
            models.write_adapter(self._begun, inputs / "adapter")
            out["adapter_name_or_path"] = os.fspath(inputs / "adapter")
        out |= self._trained.written(inputs, out, title)
        if self._reference is not None:
            out |= references.written(self._reference, inputs, self._name, title)
        if self._given_rewards is not None and self._settings.get("reward_funcs") is not None:
            out["reward_funcs"] = reward_models.written(self._given_rewards, self._reward_classes, self._settings["reward_funcs"], inputs, title)
        return out

    def _of_last_run(self):
        """The options that name what this process wrote for its last run: nothing is written again."""
        return {name: self._ran[name] for name in OF_OBJECTS if name in self._ran}

    def _output_folder(self):
        """Where the run writes; a recorder (hone.recorded) has a folder of its own."""
        return os.fspath(self.args.output_dir)

    # ---- the run

    @property
    def _folder(self):
        return pathlib.Path(self._settings["output_dir"])

    def train(self, resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None):
        """Runs to the end. Raises what a reward function or a callback raises, KeyboardInterrupt after a Ctrl-C, else HoneError."""
        if trial is not None:
            attributes.missing(attributes.TRAINER, "hyperparameter_search", type(self).__name__)
        program.require()
        self._settings.update(self._changed_args())
        refusals.refuse_changed_model(self._trained.changed(), self._name, type(self).__name__)
        if self._name == "Reward":
            contradictions.refuse_head(self._peft_config, type(self).__name__)
        own_layers.refuse(self._trained.here(), f"{type(self).__name__}.model")  # since the trainer was made
        if self._name in models.SAMPLERS and self._rollout.function is None:
            refusals.refuse_own_generate(self._trained.here(), type(self).__name__)
        settings = dict(self._settings)
        if resume_from_checkpoint:
            settings["resume_from_checkpoint"] = "true" if resume_from_checkpoint is True else os.fspath(resume_from_checkpoint)
        evaluated = self._eval_rows if self._evaluates() else None
        settings.update(plan.data_settings(self._folder, self._train_rows, evaluated, self._row_function(), type(self).__name__,
                                           streams.enough(self._train_rows, self)))
        if resume_from_checkpoint and self._ran is not None:
            settings.update(self._of_last_run())  # the object is trained already
        else:
            settings.update(self._objects_in(self._folder))
        if self._ran is not None and not resume_from_checkpoint:
            settings = again.settings_again(self, settings)
        else:
            settings = self._trained.begin(settings, bool(resume_from_checkpoint))
        path = plan.write(self._folder, settings)
        self.callback_handler.control.should_training_stop = False
        self._stopped_in = None
        self._first_step = 0
        self.is_in_train = True
        try:
            self._run(path)
        finally:
            self.is_in_train = False
        if self.is_world_process_zero():
            self._trained.write_changes(self._result_folder())
        self._ran = settings
        self._trained.take_result()
        self._take_reference()
        self.callback_handler.call("on_train_end")
        last = next((entry for entry in reversed(self.state.log_history) if "train_loss" in entry), {})
        metrics = {name: value for name, value in last.items() if name != "step"}
        return TrainOutput(self.state.global_step, metrics.get("train_loss"), metrics)

    def _evaluates(self):
        """Rows to evaluate without eval_strategy are read by nobody."""
        return self._eval_rows is not None and (str(getattr(self.args.eval_strategy, "value", self.args.eval_strategy)) != "no"
                                                 or self.args.eval_on_start)

    def _run(self, path):
        run = self._program = child.Child([options.METHODS[self._name], "--config", path], self._answer)
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
            text = verdicts.paused(folder)
        elif code < 0:
            text = f"[{folder}] the program was killed by signal {-code}; `hone explain {folder}` says why" + (f"\n{text}" if text else "")
        elif code == child.INTERRUPTED:
            text = f"[{folder}] the run was stopped, nothing lost; continue with train(resume_from_checkpoint=True)"
        return HoneError(text or f"the program ended with code {code}", code)

    # ---- what the program says and asks

    def _answer(self, message):
        if message.get("ask") == "functions":
            return {**self._functions.listed(), **self._tools.listed(), **self._rollout.listed()}
        if message.get("ask") == "rollout":
            return self._rollout.answer(message, self, self._program)
        if message.get("ask") in tools.ASKS:
            return self._tools.answer(message)
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
        return [entry_of(record) for record in records if record.get("step", step + 1) <= step and "train_runtime" not in record]

    def _on_step(self, message):
        before = int(self.state.epoch + 1e-6)
        # The program says that a step is done, and not that it begins: these are called now, in transformers' order.
        parts = ["on_substep_end"] * (self.args.gradient_accumulation_steps - 1)
        for event in ("on_step_begin", *parts, "on_pre_optimizer_step", "on_optimizer_step"):
            self.callback_handler.call(event)
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
        entry = own_metrics.added(self._own_metrics, entry_of(message["record"]), type(self).__name__)
        entry |= own_metrics.means(self._metrics["eval" if is_evaluation(entry) else "train"], "eval_" if is_evaluation(entry) else "")
        self.state.log_history.append(entry)
        logs = {name: value for name, value in entry.items() if name != "step"}
        if is_evaluation(entry):
            self.callback_handler.call("on_prediction_step")
        self.callback_handler.call("on_log", logs=dict(logs))
        if is_evaluation(entry):
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


@functools.lru_cache(maxsize=None)
def trainer_class(name):
    """Of "GRPO": GRPOTrainer."""
    made = type(f"{name}Trainer", (Masks, Trainer) if options.METHODS[name] == "grpo" else (Trainer,), {"_name": name, "__module__": "hone.trl"})
    made.__doc__ = f"TRL's {name}Trainer, run by hone {options.METHODS[name]}: train() writes an adapter or a model to args.output_dir."
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    made.__signature__ = inspect.Signature([inspect.Parameter(one, kind, default=None) for one in ARGUMENTS[name]])
    return made
