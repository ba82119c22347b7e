"""optimizers=(optimizer, scheduler) of PyTorch, as options: the program makes the same ones, for its own tensors.

An optimizer is taken by its class and its numbers, while it is new and has the parameters that are trained. Of schedulers, those of transformers'
get_*_schedule are taken, where they are as long as the run.
"""
import functools
import warnings

from hone.errors import Refused

# By the name of its class in torch.optim: hone's optim, and {number of the optimizer: option, or key of optim_args after a point}.
CLASSES = {
    "AdamW": ("adamw_torch", {"eps": "adam_epsilon"}),
    "Adam": ("adamw_torch", {"eps": "adam_epsilon"}),  # without weight decay it is AdamW
    "SGD": ("sgd", {"momentum": ".momentum", "dampening": ".dampening", "nesterov": ".nesterov"}),
    "RMSprop": ("rmsprop", {"momentum": ".momentum", "alpha": ".alpha", "eps": ".eps", "centered": ".centered"}),
    "Adagrad": ("adagrad", {"lr_decay": ".lr_decay", "eps": ".eps"}),
}
# What changes the steps, and hone does not have, where it is not this.
ONLY = {"amsgrad": False, "maximize": False, "initial_accumulator_value": 0}
# By the function in the LambdaLR that transformers makes: hone's lr_scheduler_type.
SCHEDULES = {"_get_constant_lambda": "constant", "_get_constant_schedule_with_warmup_lr_lambda": "constant_with_warmup",
             "_get_linear_schedule_with_warmup_lr_lambda": "linear", "_get_cosine_schedule_with_warmup_lr_lambda": "cosine"}
INSTEAD = "set optim, learning_rate, lr_scheduler_type and optim_args in the config"


def refuse(where, expected, found, instead=INSTEAD):
    raise Refused(where, expected, found, instead)


def settings_of(given, model, args, trainer):
    """Takes `optimizers` and `optimizer_cls_and_kwargs` out of the arguments; the options that say the same."""
    where = f"{trainer}, optimizers"
    several = given.pop("optimizers", None)
    optimizer, scheduler = several if isinstance(several, (tuple, list)) and len(several) == 2 else (several, None)
    made = given.pop("optimizer_cls_and_kwargs", None)
    if made is not None:
        if optimizer is not None:
            refuse(where, "optimizers, or optimizer_cls_and_kwargs", "both", "leave one of them out")
        kind, named = made
        return of_numbers(kind.__name__, numbers_of(kind, named, f"{trainer}, optimizer_cls_and_kwargs"), f"{trainer}, optimizer_cls_and_kwargs")
    if optimizer is None and scheduler is None:
        return {}
    if optimizer is None:
        refuse(where, "an optimizer, where there is a scheduler", f"(None, a {type(scheduler).__name__})")
    name = type(optimizer).__name__
    if name not in CLASSES or not type(optimizer).__module__.startswith("torch.optim"):
        refuse(where, f"one of torch.optim's {', '.join(CLASSES)}", f"a {name}")
    if any(int(one.get("step", 1)) for one in optimizer.state.values()):  # Adagrad has a state when it is made
        refuse(where, "an optimizer that has made no step", f"the state of one that has", "make a new one, or continue with "
               "train(resume_from_checkpoint=True)")
    groups = optimizer.param_groups
    numbers = {key: value for key, value in groups[0].items() if key not in ("params", "weight_decay")}
    odd = next((key for group in groups for key, value in numbers.items() if group.get(key) != value), None)
    if odd is not None:
        refuse(where, f"one {odd} for all parameters", f"{numbers[odd]} and others", "set one; hone has one of each number")
    if scheduler is not None:
        numbers["lr"] = numbers.get("initial_lr", numbers["lr"])
    numbers["weight_decay"] = decay_of(groups, trained_in(model, where), where)
    return {**of_numbers(name, numbers, where), **schedule_of(scheduler, args, where)}


def numbers_of(kind, named, where):
    """An optimizer's numbers, of its class and keywords; transformers gives the weight decay by args."""
    if getattr(kind, "__name__", "") not in CLASSES or not kind.__module__.startswith("torch.optim"):
        refuse(where, f"one of torch.optim's {', '.join(CLASSES)}", getattr(kind, "__name__", repr(kind)))
    import torch
    numbers = dict(kind([torch.nn.Parameter(torch.zeros(1))], **named).defaults)
    numbers.pop("weight_decay", None)
    return numbers


def of_numbers(name, numbers, where):
    """The options that make the program's optimizer this one."""
    for key, value in ONLY.items():
        if key in numbers and numbers[key] != value:
            refuse(where, f"{key}={value}", f"{key}={numbers[key]}")
    if name == "Adam" and numbers.get("weight_decay") and not numbers.get("decoupled_weight_decay"):
        refuse(where, "AdamW, or Adam without weight_decay", f"Adam with weight_decay={numbers['weight_decay']}", "use torch.optim.AdamW")
    optim, keys = CLASSES[name]
    out = {"optim": optim, "learning_rate": float(numbers["lr"])}
    if "betas" in numbers:
        out["adam_beta1"], out["adam_beta2"] = (float(beta) for beta in numbers["betas"])
    if "weight_decay" in numbers:
        out["weight_decay"] = float(numbers["weight_decay"])
    words = []
    for key, option in keys.items():
        if option.startswith("."):
            words.append(f"{option[1:]}={numbers[key]}")
        else:
            out[option] = float(numbers[key])
    return {**out, "optim_args": ",".join(words)} if words else out


def trained_in(model, where):
    """{the parameter's id: its name} of what the run trains."""
    if not hasattr(model, "named_parameters"):
        refuse(where, "the model's object, whose parameters the optimizer has", "its name", "pass the model that the parameters are of; or "
               + INSTEAD)
    return {id(value): name for name, value in model.named_parameters() if value.requires_grad}


def is_decayed(name):
    """As transformers groups them: no bias, and nothing of a norm."""
    return not name.endswith("bias") and "norm" not in name.lower()


def decay_of(groups, names, where):
    """The weight decay, of the groups: one number for all, or 0 for what transformers does not decay either."""
    found = {id(value): group.get("weight_decay", 0) for group in groups for value in group["params"]}
    if found.keys() != names.keys():
        missing = next((name for key, name in names.items() if key not in found), None)
        refuse(where, "the parameters that the run trains", f"none of {missing}" if missing else "others", "give the optimizer those of the "
               "model with requires_grad, or set requires_grad=False on the others; with peft_config use " + INSTEAD.removeprefix("set "))
    decays = {value for key, value in found.items() if is_decayed(names[key])} or {0}
    if len(decays) > 1:
        refuse(where, "one weight_decay", f"{sorted(decays)}", "give all weights the same, and norms and biases that or 0")
    decay, = decays
    others = {value for key, value in found.items() if not is_decayed(names[key])} - {0}
    if others:
        warnings.warn(f"hone: {where}: weight_decay={decay} is of the weights, as in transformers' own optimizer, and not of norms and biases",
                      stacklevel=5)
    return decay


def schedule_of(scheduler, args, where):
    """Options of a scheduler that transformers has made; without one args say it, as in transformers."""
    if scheduler is None:
        return {}
    lambdas = getattr(scheduler, "lr_lambdas", None)
    made = lambdas[0] if lambdas else None
    named = made.keywords if isinstance(made, functools.partial) else {}
    kind = SCHEDULES.get(getattr(getattr(made, "func", made), "__name__", ""))
    if kind is None or named.get("num_cycles", 0.5) != 0.5:
        refuse(where, "a constant, linear or cosine schedule of transformers", f"a {type(scheduler).__name__}",
               "use get_scheduler of transformers, or " + INSTEAD)
    if "num_training_steps" in named and named["num_training_steps"] != args.max_steps:
        refuse(where, "a schedule as long as the run", f"num_training_steps={named['num_training_steps']}, max_steps={args.max_steps}",
               "set max_steps in the config to the steps of the schedule")
    return {"lr_scheduler_type": kind, "warmup_steps": float(named.get("num_warmup_steps", 0)), "lr_scheduler_kwargs": None}
