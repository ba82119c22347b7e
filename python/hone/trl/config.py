"""Config classes with TRL's names, made of the program's option table. Every value that is set goes to the program, which judges it."""
import copy
import dataclasses
import functools
import sys

from hone.trl import options


def begin_logging():
    """accelerate's loggers, which TRL's scripts use, want its state: TrainingArguments make it in TRL."""
    accelerate = sys.modules.get("accelerate")
    if accelerate is not None and hasattr(accelerate, "PartialState"):
        accelerate.PartialState()


class Config:
    """The options of one method: attributes with their defaults; those that were set are remembered.

    A name that hone does not know is a TypeError, as in Python's own classes. What hone thinks of a value, it says when it runs.
    """
    _method = ""

    def __init__(self, output_dir=None, **settings):
        object.__setattr__(self, "_set", {})
        begin_logging()
        for name, row in options.rows(self._method).items():
            if not options.is_script_option(row):
                object.__setattr__(self, name, copy.copy(options.default_of(row)))
        if output_dir is not None:
            settings = {"output_dir": output_dir, **settings}
        if len(settings) >= len(dataclasses.fields(self)):  # transformers' HfArgumentParser passes every field: what it was not told is not set
            settings = {name: value for name, value in settings.items() if value != getattr(self, name, self)}
        for name, value in settings.items():
            self._check(name)
            setattr(self, name, value)

    def _check(self, name):
        known = options.rows(self._method)
        if name in known or name in options.former_names(self._method):
            return
        raise TypeError(f"{type(self).__name__} has no option {name!r}.{options.near(name, list(known))}"
                        f" `hone options {self._method}` lists every option.")

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if not name.startswith("_"):
            self._set[name] = value

    def settings(self):
        """{name: value} of what differs from the defaults, or was set: what the program is given."""
        known = options.rows(self._method)
        out = {}
        for name, value in self._set.items():
            if not (name in known or name in options.former_names(self._method)):
                continue  # an attribute of the user's own
            out[name] = value
        for name, row in known.items():  # lists and mappings that were changed in place
            if name not in out and isinstance(row["default"], (list, dict)) and getattr(self, name, row["default"]) != row["default"]:
                out[name] = getattr(self, name)
        return out

    def to_dict(self):
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def to_sanitized_dict(self):
        return {name: value if isinstance(value, (bool, int, float, str)) else str(value) for name, value in self.to_dict().items()}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._set.items())})"

    def __eq__(self, other):
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    # What TRL's scripts ask of transformers.TrainingArguments.
    process_index = local_process_index = 0
    world_size = n_gpu = 1
    should_save = should_log = True

    @property
    def train_batch_size(self):
        return self.per_device_train_batch_size

    @property
    def eval_batch_size(self):
        return self.per_device_eval_batch_size

    def get_process_log_level(self):
        return 30  # logging.WARNING


def field_of(row):
    default = options.default_of(row)
    meaning = {"help": row["meaning"].replace("%", "%%"),  # argparse formats it
               **({"choices": row["values"]} if "values" in row else {})}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=functools.partial(copy.copy, default), metadata=meaning)
    return dataclasses.field(default=default, metadata=meaning)


def fields_of(method, wanted):
    return [(row["name"], options.type_of(row), field_of(row)) for row in options.rows(method).values() if wanted(row)]


@functools.lru_cache(maxsize=None)
def config_class(name):
    """Of "GRPO": GRPOConfig, a dataclass whose fields are the method's options."""
    method = options.METHODS[name]
    fields = fields_of(method, lambda row: not options.is_script_option(row))
    fields.sort(key=lambda field: field[0] != "output_dir")  # the first argument, as in TRL
    made = dataclasses.make_dataclass(f"{name}Config", fields, bases=(Config,), init=False, repr=False, eq=False,
                                      namespace={"_method": method, "__module__": "hone.trl"})
    made.__doc__ = f"The options of hone {method}, with TRL's names and defaults; `hone options {method}` explains them."
    return made
