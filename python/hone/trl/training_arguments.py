"""transformers.TrainingArguments, and TRL's own Configs, as args of hone's trainers: TRL's SFTTrainer takes the first, and converts them."""
import dataclasses
import sys

from hone.trl import options

# What transformers makes of other fields, or of the machine: nobody has set it.
MADE = ("hub_token", "logging_dir", "run_name", "ddp_backend", "local_rank", "_n_gpu", "deepspeed_plugin", "distributed_state")


def is_plain(args):
    """Whether it is transformers' class, or one that was derived from it outside of hone."""
    module = sys.modules.get("transformers.training_args")
    return module is not None and isinstance(args, module.TrainingArguments)


def default_of(field):
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def value_of(value):
    return getattr(value, "value", value)  # of an enum


def fields_of(args):
    """{name: value} of what is set, or is what the class has as its default: transformers' defaults are not always those of TRL's Configs."""
    out = {}
    for field in dataclasses.fields(args):
        value = getattr(args, field.name, None)
        if field.init and not field.name.startswith("_"):
            out[field.name] = (value_of(value), value_of(default_of(field)))
    return out


def converted(args, wanted):
    """A Config of hone's with the same values; other arguments as they are."""
    if not is_plain(args):
        return args
    known, own = options.rows(wanted._method), wanted()
    taken = {}
    for name, (value, default) in fields_of(args).items():
        if name == "hub_token":
            value = args.hub_token  # repr and to_dict hide it
        if name in known and not options.is_script_option(known[name]):
            before = getattr(own, name, None)
            says_nothing = value in ([], {}, "") and (not before or before == "none")
            if value != before and not says_nothing and not is_made(value, default, name):
                taken[name] = value
        elif value != default and name not in MADE:
            taken[name] = value  # the Config says that it has no such option
    return wanted(**taken)


def is_made(value, default, name):
    """Of objects that transformers makes where nothing was set, such as accelerator_config's, and of what it decides by the machine."""
    return (name in MADE and name != "hub_token") or (default is None and type(value).__module__.split(".")[0] in ("transformers", "accelerate"))
