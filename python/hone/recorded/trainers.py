"""The trainers that a script gets: those of hone.trl, whose train() writes the run and ends the script."""
import functools
import os
import sys

from hone.errors import Refused
from hone.recorded import defaults, held, marked_rows, record
from hone.trl import functions, options, plan, refusals
from hone.trl.config import Config, config_class
from hone.trl.trainer import ARGUMENTS, trainer_class

# Arguments of former releases of TRL, and of Unsloth's trainers, that no option has.
NO_EFFECT = ("dataset_num_proc", "dataset_batch_size", "num_of_sequences", "chars_per_token", "model_adapter_name", "ref_adapter_name",
             "is_encoder_decoder", "label_pad_token_id", "padding_value", "padding")
METRICS = ("compute_metrics", "preprocess_logits_for_metrics")
PADS = ("DataCollatorForSeq2Seq", "DataCollatorWithPadding", "DefaultDataCollator", "DataCollatorForLanguageModeling")
RENAMED = {"evaluation_strategy": "eval_strategy", "max_seq_length": "max_length"}  # names in args that this process reads by today's
LENGTHS = ("max_length", "max_seq_length")


def is_unsloth():
    return "unsloth" in sys.modules


def arguments_as(args, wanted):
    """A config of another method's, or TrainingArguments, as this trainer's: what was set, and its own defaults."""
    if args is None or isinstance(args, wanted) or not isinstance(args, Config):
        return args
    if isinstance(args, defaults.training_arguments()) and wanted._method == "sft":
        if is_unsloth() and not {"bf16", "fp16"} & set(args._set):
            args.bf16 = True  # the type of the model
        return args
    made = wanted()
    for name, value in {**args.settings(), **args._set}.items():
        if name in options.rows(wanted._method) or name in options.former_names(wanted._method):
            setattr(made, name, value)
        else:
            raise Refused(f"{wanted.__name__}, {name}", "an option of this trainer", f"{name} of {type(args).__name__}", "leave it out")
    return made


class Recorded:
    """Before TRL's trainer of hone.trl: it takes what scripts pass, and a model that was not loaded."""

    def __init__(self, *arguments, **named):
        record.TRAINERS.append([type(self).__name__, record.place()])
        given = self._bound(arguments, named)
        args = arguments_as(given.get("args"), config_of(self._name))
        given["args"] = args = config_of(self._name)() if args is None else args
        object.__setattr__(self, "_was_former", "max_seq_length" in args._set or "max_seq_length" in given)
        for before, today in RENAMED.items():
            if before in args._set and today not in args._set:
                setattr(args, today, args._set.pop(before))
        self._take_former(given, args)
        model = given.get("model")
        object.__setattr__(self, "_held", model if isinstance(model, held.Held) else None)
        if self._held is not None:
            self._take_model(given, args)
        elif not isinstance(model, (str, os.PathLike, type(None))):
            raise Refused(f"{type(self).__name__}, model", "a name, or a model of from_pretrained", f"a {type(model).__name__}",
                          "load it with AutoModelForCausalLM.from_pretrained, or pass its name")
        for name in ("ref_model", "teacher_model"):
            if isinstance(given.get(name), held.Held):
                given[name] = given[name].name_or_path
        rewards = given.get("reward_funcs")
        if isinstance(rewards, (list, tuple, held.Held)):
            given["reward_funcs"] = [one.name_or_path if isinstance(one, held.Held) else one
                                     for one in (rewards if isinstance(rewards, (list, tuple)) else [rewards])]
        for name in [name for name in METRICS if given.pop(name, None) is not None]:
            record.note(f"{type(self).__name__}, {name}", "figures of an evaluation, which train nothing: it is not called")
        collator = given.pop("data_collator", None)
        if is_unsloth() and self._name == "GRPO":
            whole_groups(args)
        makes_tokens = is_unsloth() and self._name == "SFT" and not isinstance(self, Trainer)
        function = given.pop("formatting_func", None) if makes_tokens else None
        super().__init__(**given)
        if makes_tokens:
            self._take_texts(function)
        self._take_collator(collator)

    def _take_former(self, given, args):
        """Arguments that are options today: a note names them."""
        former = []
        for name in [name for name in given if name not in ARGUMENTS[self._name]]:
            value = given.pop(name)
            if name in NO_EFFECT or value is None:
                continue
            if name not in options.rows(options.METHODS[self._name]) and name not in options.former_names(options.METHODS[self._name]):
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}")
            today = options.former_rows(options.METHODS[self._name]).get(name, {}).get("option") or name
            if today != "max_length" or not set(LENGTHS) & set(args._set):  # else the config's counts
                setattr(args, today, value)
            former.append(name)
        if former:
            record.note(f"{type(self).__name__}, {', '.join(former)}", "arguments of older versions: today they are options of its config")

    def _take_model(self, given, args):
        model = self._held
        if model.kind == "scores" and self._name != "Reward":
            raise Refused(f"{type(self).__name__}, model", "a model that writes text", "one that classifies: AutoModelForSequenceClassification",
                          "hone trains on text; RewardTrainer trains a model of scores")
        given["model"] = model.name_or_path
        if model.adapter is not None:
            if given.get("peft_config") is not None:
                refusals.refuse_second_adapter({"peft_config": given["peft_config"]}, {}, type(self).__name__)
            given["peft_config"] = model.adapter
        limit = model.max_seq_length
        if model.unsloth and limit is not None and "max_length" in options.rows(options.METHODS[self._name]):
            self._take_length(args, limit)

    def _take_length(self, args, limit):
        """Unsloth's SFT reads max_seq_length alone, of the config or else of the model; its other trainers read max_length alone."""
        own = args._set.get("max_length")
        if self._name != "SFT" or own is None:
            if self._name == "SFT":
                args.max_length = limit
            return
        if self._was_former:
            args.max_length = min(own, limit)
        else:
            args.max_length = limit
        if own != limit:
            record.note("max_length", f"{own} in the config and max_seq_length {limit} of the model: "
                        f"{'the lesser counts' if self._was_former else 'Unsloth takes that of the model'}")

    def _take_texts(self, function):
        for name in ("_train_rows", "_eval_rows"):
            data = getattr(self, name)
            if data is not None and not isinstance(data, (str, os.PathLike, dict)):
                object.__setattr__(self, name, marked_rows.of_unsloth(self, data, function))

    def _take_collator(self, collator):
        kind = type(collator).__name__
        if collator is None or kind in PADS and kind != "DataCollatorForLanguageModeling":
            return
        where = type(self).__name__
        if kind == "DataCollatorForLanguageModeling":
            object.__setattr__(self, "_train_rows", marked_rows.of_language_model(collator, marked_rows.with_tokens(self, self._train_rows)))
        elif kind == "CompletionOnly":
            object.__setattr__(self, "_train_rows", collator.labeled(self, self._train_rows))
            if self._eval_rows is not None and not isinstance(self._eval_rows, dict):
                object.__setattr__(self, "_eval_rows", collator.labeled(self, self._eval_rows))
        else:
            refusals.refuse_arguments(where, {"data_collator": collator})

    # ---- in the place of parts of hone.trl's trainer

    def _config(self, args, model):
        return args if isinstance(args, Config) else super()._config(args, model)

    def _output_folder(self):
        return os.path.join(record.FOLDER, "run")

    def _own_settings(self, given, model, title):
        out = super()._own_settings(given, model, title)
        if self._held is not None:
            own = dict(self._held.settings)
            if "dtype" in (out.get("model_init_kwargs") or {}):
                own.pop("dtype", None)
            plan.take(out, own, title)
        if out.get("reward_timeout") == functions.TIMEOUT:
            del out["reward_timeout"]  # the examination does not wait a day
        return out

    @property
    def model(self):
        return self._held if self._held is not None else super().model

    model_wrapped = model

    def train(self, resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None, **_):
        if record.Ended.reached is not None:
            raise record.Ended.reached
        if resume_from_checkpoint:
            record.note("train, resume_from_checkpoint", "the run is examined from its beginning")
        if self._held is not None:
            self._held.refuse_changed(type(self).__name__)
        frozen = {} if self._held is None or self._settings.get("use_peft") else self._held.frozen()
        if frozen.get("unfrozen_parameters") == []:
            raise Refused(f"{type(self).__name__}, model", "a parameter that is trained", "a model with requires_grad=False on every one",
                          "leave some of them on, or make an adapter")
        self._settings.update(frozen)
        return super().train()

    def _run(self, path):
        record.Ended.reached = record.Reached(self, path)
        raise record.Ended.reached

    def evaluate(self, *_, **__):
        record.note(f"{type(self).__name__}.evaluate", "nothing is evaluated before train()")
        return {}

    def predict(self, *_, **__):
        raise Refused(f"{type(self).__name__}.predict", "a script that trains first", "predict() before train()", "leave it out of what is run before train()")


def whole_groups(args):
    """Unsloth makes whole groups of completions: where a step has none, its batch becomes num_generations."""
    batch, parts, group = args.per_device_train_batch_size, args.gradient_accumulation_steps, args.num_generations
    own = {"steps_per_generation", "generation_batch_size"} & set(args._set)
    if own or not group or batch * parts % group == 0:
        return
    record.note("per_device_train_batch_size", f"{batch} x {parts} completions of a step are no whole groups of {group}: Unsloth makes the batch {group}")
    args.per_device_train_batch_size = group


def config_of(name):
    """The config class of a trainer: with Unsloth's defaults where the script has imported it."""
    if is_unsloth():
        return defaults.unsloth_config(name)
    return config_class(name)


@functools.lru_cache(maxsize=None)
def recorded_class(name):
    """Of "SFT": SFTTrainer, recorded."""
    base = trainer_class(name)
    return type(f"{name}Trainer", (Recorded, base), {"__module__": "hone.recorded", "__doc__": base.__doc__})


class Trainer(Recorded, trainer_class("SFT")):
    """transformers.Trainer: rows of tokens, and the labels that they or the collator have."""

    def __init__(self, model=None, args=None, data_collator=None, train_dataset=None, eval_dataset=None, processing_class=None, **named):
        where = "Trainer"
        args = defaults.training_arguments()() if args is None else args
        if "tokenizer" in named:
            processing_class = named.pop("tokenizer")
        if isinstance(eval_dataset, dict):
            raise Refused(f"{where}, eval_dataset", "one data set", "several", "give one of them")
        if train_dataset is None:
            raise Refused(f"{where}, train_dataset", "rows with input_ids", "none", "pass the rows")
        rows = marked_rows.collated(data_collator, train_dataset, self, where)
        held_out = marked_rows.collated(data_collator, eval_dataset, self, where) if eval_dataset is not None else None
        if "max_length" not in args._set:
            args.max_length = None  # its rows are cut where the script makes tokens of them
        super().__init__(model=model, args=args, train_dataset=rows, eval_dataset=held_out, processing_class=processing_class, **named)
