"""Records transformers' schedules and the optimizers that its Trainer builds: FIXTURES/learn/schedules.json,
optimizers.safetensors, optimizers_bnb.safetensors, optimizers_8bit.safetensors. usage: record_optimizers.py [--out FOLDER]

schedules.json: `factors`: type, warmup, total, learning_rate, kwargs, and the factor on the learning rate before each step;
`metric`: type, learning_rate, kwargs, metrics (one an evaluation) and the rate after each.

optimizers*.safetensors: each case in the metadata ("cases"): optim, optim_args, weight_decay and the other options that differ
from TrainingArguments' defaults, steps (those that are kept). Trainer.create_optimizer builds the optimizer for a module whose
parameters are NAMES. Parameters and gradients follow a rule that both sides compute exactly (`values`), and the learning rate
of step t is 1e-2 (1 - t / 25). <case>.<step>: the parameters after that step, all in one tensor; <case>.state.<key>: the state
after the last one, by bitsandbytes' keys, of all parameters in one tensor. The last two files need bitsandbytes (0.50.2) beside
the parity environment: PYTHONPATH=<folder that holds it>; without it they are left as they are."""
import importlib.util
import os
import tempfile

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # bitsandbytes would compile its plain forms

from common import options, versions, write_json, write_tensors

import torch
from transformers import Trainer, TrainingArguments
from transformers.optimization import get_scheduler

STEPS = 20
# In the order of the flat buffer: [shape]; the second and third get no weight decay.
SMALL = {"q_proj.lora_A.weight": [6, 10], "layers.0.input_layernorm.weight": [7], "q_proj.bias": [13],
         "q_proj.lora_magnitude_vector.weight": [5], "score.weight": [2, 3, 4]}
LARGE = {"q_proj.lora_A.weight": [20, 205], "q_proj.bias": [13], "embed_tokens.weight": [16, 257]}  # 4096: in 8 bits


def schedules():
    found = []

    def case(name, warmup, total, learning_rate=2e-4, **kwargs):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=learning_rate)
        scheduler = get_scheduler(name, optimizer, warmup, total, scheduler_specific_kwargs=kwargs)
        found.append({"type": name, "warmup": warmup, "total": total, "learning_rate": learning_rate, "kwargs": kwargs,
                      "factors": [float(scheduler.lr_lambdas[0](step)) for step in range(total + 2)]})

    for name in ("linear", "cosine", "cosine_with_restarts", "polynomial", "constant_with_warmup", "inverse_sqrt"):
        case(name, 0, 10)
        case(name, 4, 13)
    case("linear", 12, 10)
    case("constant", 3, 6)
    case("cosine", 2, 11, num_cycles=1.5)
    case("cosine_with_restarts", 2, 17, num_cycles=3)
    case("polynomial", 3, 12, learning_rate=1e-3, lr_end=1e-5, power=2.0)
    case("polynomial", 0, 9, power=0.5)
    case("inverse_sqrt", 3, 12, timescale=7)
    for name in ("cosine_with_min_lr", "cosine_warmup_with_min_lr"):
        case(name, 0, 10, min_lr_rate=0.1)
        case(name, 3, 14, learning_rate=1e-3, min_lr=2.5e-5)
        case(name, 1, 12, min_lr_rate=0.25, num_cycles=0.75)
    case("cosine_warmup_with_min_lr", 5, 14, min_lr_rate=0.1, warmup_lr_rate=0.05)
    case("cosine_warmup_with_min_lr", 1, 9, min_lr_rate=0.1, warmup_lr_rate=0.05)
    case("warmup_stable_decay", 3, 20, num_decay_steps=6)
    case("warmup_stable_decay", 0, 9, num_decay_steps=20)
    for form in ("linear", "cosine", "1-sqrt"):
        case("warmup_stable_decay", 4, 18, num_decay_steps=5, warmup_type=form, decay_type=form, min_lr_ratio=0.1)
    case("warmup_stable_decay", 2, 16, num_decay_steps=5, num_stable_steps=6, num_cycles=0.4)
    return found


def metric_schedules():
    found = []
    down = [3.0, 2.5, 2.4, 2.4, 2.39999, 2.41, 2.42, 2.3, 2.35, 2.36, 2.36, 2.37, 2.37, 2.2, 2.1, 2.0, 2.0, 2.0, 2.0, 2.0]
    metrics = down + [1.9 - 0.1 * (i % 7) + 0.05 * i for i in range(20)] + [float("nan"), 0.5, 0.4, 0.3, 0.2, 0.1]

    def case(name, learning_rate=2e-4, **kwargs):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=learning_rate)
        scheduler = get_scheduler(name, optimizer, 0, 10, scheduler_specific_kwargs=kwargs)
        rates = []
        for metric in metrics:
            scheduler.step(metric)
            rates.append(optimizer.param_groups[0]["lr"])
        found.append({"type": name, "learning_rate": learning_rate, "kwargs": kwargs,
                      "metrics": ["nan" if metric != metric else metric for metric in metrics], "rates": rates})

    case("reduce_lr_on_plateau")
    case("reduce_lr_on_plateau", factor=0.5, patience=1)
    case("reduce_lr_on_plateau", factor=0.5, patience=0, cooldown=2, min_lr=3e-5)
    case("reduce_lr_on_plateau", mode="max", factor=0.3, patience=2, threshold=0.01, threshold_mode="abs", eps=1e-6)
    case("reduce_lr_on_plateau", factor=0.5, patience=1, threshold=0.2)
    case("greedy")
    case("greedy", patience=1, min_lr=1e-5, max_lr=3e-4, factor=0.8)
    case("greedy", patience=0, min_lr=1e-4, factor=0.5, cooldown=1, warmup=2, reset_start=2)
    case("greedy", patience=0, min_lr=1.9e-4, factor=0.5, reset_start=1, mode="max", threshold_mode="rel", threshold=0.01)
    case("greedy", patience=1, min_lr=1e-6, factor=0.7, smooth=True, window_size=3)
    return found


def values(size, step):
    """The parameters (step 0) or the gradient of a step: exact in float32. The numbers of a step differ in size by blocks of
    100; in steps 1 and 2, elements 256 to 511 are zero."""
    i = torch.arange(size, dtype=torch.int64)
    out = ((i * 7919 + step * 10007 + 13) % 2003 - 1001).to(torch.float32) / 1024
    out = out * torch.pow(2.0, -((i // 100 + step) % 6).to(torch.float32))
    if 0 < step < 3:
        out[256:512] = 0
    return out


class Parameters(torch.nn.Module):
    """A module for each part of the names, so that the Trainer's rules on names and types see what they would see in a model."""

    def __init__(self, shapes):
        super().__init__()
        for name, shape in shapes.items():
            inner, parts = self, name.split(".")
            for part in parts[:-2]:
                if part not in inner._modules:
                    inner.add_module(part, torch.nn.Module())
                inner = inner._modules[part]
            if parts[-2] not in inner._modules:
                made = torch.nn.Embedding(*shape) if parts[-2] == "embed_tokens" else torch.nn.Module()
                inner.add_module(parts[-2], made)
            inner._modules[parts[-2]].register_parameter(parts[-1], torch.nn.Parameter(torch.zeros(shape)))


def optimizer_case(shapes, steps, **given):
    model = Parameters(shapes)
    named = dict(model.named_parameters())
    tensors = [named[name] for name in shapes]
    size = sum(one.numel() for one in tensors)

    def each(flat):
        return [part.view(one.shape) for part, one in zip(flat.split([one.numel() for one in tensors]), tensors)]
    with torch.no_grad():
        for one, start in zip(tensors, each(values(size, 0))):
            one.copy_(start)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(output_dir=folder, use_cpu=True, report_to="none", learning_rate=1e-2, **given)
        optimizer = Trainer(model=model, args=args).create_optimizer()
    found = {}
    for step in range(1, STEPS + 1):
        for one, gradient in zip(tensors, each(values(size, step))):
            one.grad = gradient.clone()
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 - step / 25)
        optimizer.step()
        if step in steps:
            found[str(step)] = torch.cat([one.detach().flatten() for one in tensors])
    for key in ("state1", "state2", "absmax1", "absmax2"):
        for dtype in (torch.uint8, torch.float32):
            states = [optimizer.state[one][key] for one in tensors if key in optimizer.state[one]]
            parts = [one.flatten() for one in states if one.dtype == dtype]
            if parts:
                found[f"state.{key}.{str(dtype)[6:]}"] = torch.cat(parts)
    return found


def record_optimizers(path, shapes, steps, cases, **more):
    # MKL's square root differs by a bit between makers of processors
    tensors = {"probe.sqrt": values(4096, 0).abs().sqrt()}
    for name, given in cases.items():
        for key, value in optimizer_case(shapes, steps, **given).items():
            tensors[f"{name}.{key}"] = value
    write_tensors(path, tensors, cases={name: {**given, "steps": steps} for name, given in cases.items()},
                  names=shapes, **more)


def main():
    out = options(__doc__).out / "learn"
    write_json(out / "schedules.json", {"versions": versions(), "factors": schedules(), "metric": metric_schedules()})
    every = list(range(1, STEPS + 1))
    record_optimizers(out / "optimizers.safetensors", SMALL, every, {
        "adamw": dict(optim="adamw_torch", weight_decay=0.1),
        "adamw_fused": dict(optim="adamw_torch_fused", weight_decay=0.1, adam_beta1=0.8, adam_beta2=0.95, adam_epsilon=1e-6),
        "rmsprop": dict(optim="rmsprop"),
        "rmsprop_decay": dict(optim="rmsprop", weight_decay=0.1, optim_args="alpha=0.9,eps=1e-6,weight_decay=0.5"),
        "rmsprop_momentum": dict(optim="rmsprop", weight_decay=0.05, optim_args="momentum=0.9"),
        "rmsprop_centered": dict(optim="rmsprop", optim_args="centered=True, alpha=0.95"),
        "rmsprop_all": dict(optim="rmsprop", weight_decay=0.01, optim_args="centered=yes,momentum=0.5"),
        "sgd": dict(optim="sgd"),
        "sgd_decay": dict(optim="sgd", weight_decay=0.1),
        "sgd_momentum": dict(optim="sgd", weight_decay=0.1, optim_args="momentum=0.9,dampening=0.1"),
        "sgd_nesterov": dict(optim="sgd", optim_args="momentum=0.8,nesterov=True"),
        "adagrad": dict(optim="adagrad"),
        "adagrad_decay": dict(optim="adagrad", weight_decay=0.1, optim_args="lr_decay=0.05,eps=1e-6"),
        "adafactor": dict(optim="adafactor"),
        "adafactor_decay": dict(optim="adafactor", weight_decay=0.1)})
    if importlib.util.find_spec("bitsandbytes") is None:
        print("optimizers_bnb, optimizers_8bit: left as they are, no bitsandbytes")
        return
    import bitsandbytes
    record_optimizers(out / "optimizers_bnb.safetensors", SMALL, every, {
        "adamw": dict(optim="paged_adamw_32bit", weight_decay=0.1),
        "lion": dict(optim="lion_32bit"),
        "lion_decay": dict(optim="paged_lion_32bit", weight_decay=0.1, adam_beta2=0.99)},
        bitsandbytes=bitsandbytes.__version__)
    record_optimizers(out / "optimizers_8bit.safetensors", LARGE, [1, STEPS], {
        "adamw": dict(optim="adamw_bnb_8bit"),
        "adamw_decay": dict(optim="paged_adamw_8bit", weight_decay=0.1, adam_beta1=0.8, adam_beta2=0.95, adam_epsilon=1e-6),
        "lion": dict(optim="lion_8bit", weight_decay=0.1, adam_beta2=0.99)},
        bitsandbytes=bitsandbytes.__version__)


if __name__ == "__main__":
    main()
