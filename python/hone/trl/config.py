"""Config classes with TRL's names, made of the program's option table. Every value that is set goes to the program, which judges it."""
import copy
import dataclasses
import datetime
import functools
import inspect
import json
import math
import sys
import types

from hone.errors import Refused
from hone.trl import attributes, machine, options


SECRETS = ("hub_token", "push_to_hub_token", "token", "use_auth_token")


def begin_logging():
    """accelerate's loggers, which TRL's scripts use, want its state: TrainingArguments make it in TRL."""
    accelerate = sys.modules.get("accelerate")
    if accelerate is not None and hasattr(accelerate, "PartialState"):
        accelerate.PartialState()


class _Making(type):
    """Of a subclass that @dataclass made an __init__ for, which knows no former names: they are set afterwards."""

    def __call__(cls, *arguments, **settings):
        if cls.__init__ is Config.__init__:
            return super().__call__(*arguments, **settings)
        taken = inspect.signature(cls.__init__).parameters
        former = {name: value for name, value in settings.items() if name not in taken and name in options.former_names(cls._method)}
        unknown = next((name for name in settings if name not in taken and name not in former), None)
        if unknown is not None and not any(one.kind is one.VAR_KEYWORD for one in taken.values()):
            raise TypeError(f"{cls.__name__} has no option {unknown!r}.{options.near(unknown, list(taken))}")
        made = super().__call__(*arguments, **{name: value for name, value in settings.items() if name not in former})
        for name, value in former.items():
            setattr(made, name, value)
        return made


class Config(metaclass=_Making):
    """The options of one method: attributes with their defaults; those that were set are remembered.

    A name that hone does not know is a TypeError, as in Python's own classes. What hone thinks of a value, it says when it runs.
    """
    _method, _own_defaults, _passes_defaults = "", {}, False

    def __init__(self, output_dir=None, **settings):
        object.__setattr__(self, "_set", {})
        begin_logging()
        for name, row in options.rows(self._method).items():
            if not options.is_script_option(row):
                object.__setattr__(self, name, copy.copy(self._default(name)))
        if output_dir is not None:
            settings = {"output_dir": output_dir, **settings}
        if len(settings) >= len(dataclasses.fields(self)):  # transformers' HfArgumentParser passes every field: what it was not told is not set
            settings = {name: value for name, value in settings.items()
                        if value != (self._default(name) if name == "device" else getattr(self, name, self))}
        for name, value in settings.items():
            self._check(name)
            setattr(self, name, value)

    def __post_init__(self):
        """Of a subclass that @dataclass made an __init__ for: it has set every field, and what is the default was not set."""
        begin_logging()
        for name in [name for name, value in self._set.items() if value == self._default(name)]:
            del self._set[name]

    def _default(self, name):
        row = options.rows(self._method).get(name)
        return self if row is None else self._own_defaults.get(name, options.default_of(row))  # no value equals a Config

    def __getattr__(self, name):
        """Names that TRL's config has beside its options: former ones that were not set, and those of attributes.py."""
        if name == "_set":
            object.__setattr__(self, "_set", {})
            return self._set
        row = options.former_rows(self._method).get(name) if not name.startswith("_") else None
        if row is not None:
            return getattr(self, row["option"], None) if row["option"] else None
        return attributes.missing(attributes.ARGUMENTS, name, type(self).__name__)

    @classmethod
    def _own_fields(cls):
        """Fields that a subclass of the caller's has: its script reads them, and the program does not. An option's is another default of it."""
        owners = [owner for owner in cls.__mro__ if owner.__module__.split(".")[0] != "hone"]
        return {name for owner in owners for name in vars(owner).get("__annotations__", {})} - options.rows(cls._method).keys()

    def _check(self, name):
        known = options.rows(self._method)
        if name in known or name in options.former_names(self._method) or name in self._own_fields():
            return
        raise TypeError(f"{type(self).__name__} has no option {name!r}.{options.near(name, list(known))}"
                        f" `hone options {self._method}` lists every option.")

    def __setattr__(self, name, value):
        if name == "loss_type" and value != self._own_defaults.get(name, value):
            raise Refused(f"{type(self).__name__}, loss_type", self._own_defaults[name], repr(value), "take the Config of that loss")
        object.__setattr__(self, name, value)
        if not name.startswith("_"):
            self._set[name] = value

    def settings(self):
        """{name: value} of what differs from the defaults, or was set: what the program is given."""
        known = options.rows(self._method)
        former = options.former_rows(self._method)
        said = {former[name]["option"] for name in self._set if name in former}
        out = {name: value for name, value in self._own_defaults.items() if name == "loss_type" or (self._passes_defaults and name not in said)}
        own = self._own_fields()
        for name, value in self._set.items():
            if name in own or not (name in known or name in options.former_names(self._method)):
                continue  # an attribute of the user's own
            out[name] = value
        for name, row in known.items():  # lists and mappings that were changed in place
            if name not in out and name not in own and isinstance(row["default"], (list, dict)) and getattr(self, name, row["default"]) != row["default"]:
                out[name] = getattr(self, name)
        return out

    def _shown(self, name, value):
        """As transformers: a token is not written into logs."""
        return f"<{name.upper()}>" if name in SECRETS and value is not None else value

    def to_dict(self):
        return {field.name: self._shown(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)}

    def to_sanitized_dict(self):
        return {name: value if isinstance(value, (bool, int, float, str)) else str(value) for name, value in self.to_dict().items()}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={self._shown(name, value)!r}' for name, value in self._set.items())})"

    def __eq__(self, other):
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    def to_json_string(self):
        return json.dumps(self.to_sanitized_dict(), indent=2)

    # What scripts ask of transformers.TrainingArguments beside options (attributes.py).
    @property
    def n_gpu(self):
        return int(str(self.device).startswith("cuda"))

    @property
    def device(self):
        """As in transformers a torch.device; what is set here is the option, and use_cpu and the former no_cuda say cpu."""
        return machine.device("cpu" if self.use_cpu or self._set.get("no_cuda") else self.__dict__.get("device", "cpu"))

    @device.setter
    def device(self, value):
        self.__dict__["device"] = value

    @property
    def parallel_mode(self):
        """transformers' enum where this process has it."""
        word = "distributed" if machine.world_size() > 1 else "not_parallel"
        training_args = sys.modules.get("transformers.training_args")
        return training_args.ParallelMode(word) if training_args is not None else word

    @property
    def process_index(self):
        return machine.rank()

    @property
    def local_process_index(self):
        return machine.local_rank()

    @property
    def world_size(self):
        return machine.world_size()

    @property
    def should_save(self):
        return machine.rank() == 0

    should_log = should_save

    @property
    def train_batch_size(self):
        return self.per_device_train_batch_size

    @property
    def eval_batch_size(self):
        return self.per_device_eval_batch_size

    @property
    def ddp_timeout_delta(self):
        return datetime.timedelta(seconds=self.ddp_timeout)

    def get_process_log_level(self):
        """As transformers: logging's WARNING where log_level is passive."""
        word = (self.log_level if self.should_log else self.log_level_replica) if hasattr(self, "log_level") else "passive"
        return {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}.get(word, 30)

    def get_warmup_steps(self, num_training_steps):
        return int(self.warmup_steps) if self.warmup_steps >= 1 else math.ceil(num_training_steps * self.warmup_steps)

    def main_process_first(self, local=True, desc="work"):
        return machine.first(machine.local_rank() == 0 if local else machine.rank() == 0)

    # transformers' setters of several options at once.

    def _put(self, **values):
        for name, value in values.items():
            self._check(name)
            setattr(self, name, value)
        return self

    def set_training(self, learning_rate=5e-5, batch_size=8, weight_decay=0, num_epochs=3.0, max_steps=-1, gradient_accumulation_steps=1,
                     seed=42, gradient_checkpointing=False):
        return self._put(learning_rate=learning_rate, per_device_train_batch_size=batch_size, weight_decay=weight_decay, max_steps=max_steps,
                         num_train_epochs=num_epochs, gradient_accumulation_steps=gradient_accumulation_steps, seed=seed,
                         gradient_checkpointing=gradient_checkpointing)

    def set_evaluate(self, strategy="no", steps=500, batch_size=8, accumulation_steps=None, delay=None, loss_only=False):
        return self._put(eval_strategy=strategy, eval_steps=steps, per_device_eval_batch_size=batch_size, eval_accumulation_steps=accumulation_steps,
                         eval_delay=delay, prediction_loss_only=loss_only)

    def set_testing(self, batch_size=8, loss_only=False):
        return self._put(per_device_eval_batch_size=batch_size, prediction_loss_only=loss_only)

    def set_save(self, strategy="steps", steps=500, total_limit=None, on_each_node=False):
        return self._put(save_strategy=strategy, save_steps=steps, save_total_limit=total_limit, save_on_each_node=on_each_node)

    def set_logging(self, strategy="steps", steps=500, report_to="none", level="passive", first_step=False, nan_inf_filter=False,
                    on_each_node=False, replica_level="passive"):
        return self._put(logging_strategy=strategy, logging_steps=steps, report_to=report_to, log_level=level, logging_first_step=first_step,
                         logging_nan_inf_filter=nan_inf_filter, log_on_each_node=on_each_node, log_level_replica=replica_level)

    def set_push_to_hub(self, model_id, strategy="every_save", token=None, private_repo=None, always_push=False, revision=None):
        return self._put(push_to_hub=True, hub_model_id=model_id, hub_strategy=strategy, hub_token=token, hub_private_repo=private_repo,
                         hub_always_push=always_push, hub_revision=revision)

    def set_optimizer(self, name="adamw_torch", learning_rate=5e-5, weight_decay=0, beta1=0.9, beta2=0.999, epsilon=1e-8, args=None):
        return self._put(optim=name, learning_rate=learning_rate, weight_decay=weight_decay, adam_beta1=beta1, adam_beta2=beta2,
                         adam_epsilon=epsilon, optim_args=args)

    def set_lr_scheduler(self, name="linear", num_epochs=3.0, max_steps=-1, warmup_steps=0):
        return self._put(lr_scheduler_type=name, num_train_epochs=num_epochs, max_steps=max_steps, warmup_steps=warmup_steps)

    def set_dataloader(self, train_batch_size=8, eval_batch_size=8, drop_last=False, num_workers=0, pin_memory=True, persistent_workers=False,
                       prefetch_factor=None, auto_find_batch_size=False, ignore_data_skip=False, sampler_seed=None):
        return self._put(per_device_train_batch_size=train_batch_size, per_device_eval_batch_size=eval_batch_size, dataloader_drop_last=drop_last,
                         dataloader_num_workers=num_workers, dataloader_pin_memory=pin_memory, dataloader_prefetch_factor=prefetch_factor,
                         dataloader_persistent_workers=persistent_workers, auto_find_batch_size=auto_find_batch_size,
                         ignore_data_skip=ignore_data_skip, data_seed=sampler_seed)


def field_of(row, own):
    default = own.get(row["name"], options.default_of(row))
    meaning = {"help": row["meaning"].replace("%", "%%"),  # argparse formats it
               **({"choices": row["values"]} if "values" in row and not any(one.endswith(("_N", ":N")) for one in row["values"]) else {})}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=functools.partial(copy.copy, default), metadata=meaning)
    return dataclasses.field(default=default, metadata=meaning)


def fields_of(method, wanted, own=types.MappingProxyType({})):
    """`own`: defaults other than the program's."""
    return [(row["name"], options.type_of(row), field_of(row, own)) for row in options.rows(method).values() if wanted(row)]


def public_dataclass(title, fields, **more):
    """A dataclass of hone.trl, where pickle finds it: from Python 3.12 on make_dataclass writes the caller's module over one in `namespace`."""
    made = dataclasses.make_dataclass(title, fields, **more)
    made.__module__ = "hone.trl"
    return made


def make_class(title, method, own, passes, bases=(Config,)):
    """A dataclass whose fields are the method's options. `own`: other defaults than the program's; `passes`: whether it is told them."""
    fields = fields_of(method, lambda row: not options.is_script_option(row), own)
    fields.sort(key=lambda field: field[0] != "output_dir")  # the first argument, as in TRL
    made = public_dataclass(title, fields, bases=bases, init=False, repr=False, eq=False,
                            namespace={"_method": method, "_own_defaults": own, "_passes_defaults": passes})
    del made.device  # the field's default, in the way of Config's property
    return made


@functools.lru_cache(maxsize=None)
def config_class(name):
    """Of "GRPO": GRPOConfig, a dataclass whose fields are the method's options."""
    method = options.METHODS[name]
    made = make_class(f"{name}Config", method, options.LOSSES.get(name, {}), name in options.PASSED)
    made.__doc__ = f"The options of hone {method}, with TRL's names and defaults; `hone options {method}` explains them."
    return made
