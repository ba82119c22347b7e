"""What trainer.accelerator is: the questions of scripts to accelerate.Accelerator, answered for the process that called hone."""
import contextlib
import functools
import os

from hone.errors import Refused
from hone.trl import attributes, machine


class Accelerator:
    """Of one process, or of one of a launcher's. The steps, their batches and the optimizer are the program's."""

    def __init__(self, trainer):
        self._trainer = trainer

    def __getattr__(self, name):
        return attributes.missing(attributes.ACCELERATOR, name, "trainer.accelerator")

    def __setattr__(self, name, value):
        if not name.startswith("_"):
            raise Refused(f"trainer.accelerator.{name}", "no other value: the run is a program of its own", repr(value), "set options in the config")
        object.__setattr__(self, name, value)

    # ---- which process this is

    @property
    def process_index(self):
        return machine.rank()

    @property
    def local_process_index(self):
        return machine.local_rank()

    @property
    def num_processes(self):
        return machine.world_size()

    @property
    def is_main_process(self):
        return machine.rank() == 0

    @property
    def is_local_main_process(self):
        return machine.local_rank() == 0

    @property
    def is_last_process(self):
        return machine.rank() == machine.world_size() - 1

    @property
    def use_distributed(self):
        return machine.world_size() > 1

    multi_device = use_distributed

    @property
    def distributed_type(self):
        """accelerate's enum where this process has it, whose members equal their words."""
        word = "MULTI_CPU" if machine.world_size() > 1 else "NO"
        try:
            from accelerate.utils import DistributedType
        except ImportError:
            return word
        return DistributedType(word)

    @property
    def device(self):
        return self._trainer.args.device

    @property
    def state(self):
        return self

    @property
    def mixed_precision(self):
        return "bf16" if self._trainer.args.bf16 else "no"

    @property
    def gradient_accumulation_steps(self):
        return self._trainer.args.gradient_accumulation_steps

    @property
    def project_dir(self):
        return os.fspath(self._trainer._folder)

    logging_dir = project_dir

    # ---- in turn

    def print(self, *words, **named):
        if self.is_local_main_process:
            print(*words, **named)

    def wait_for_everyone(self):
        machine.barrier()

    def main_process_first(self):
        return machine.first(self.is_main_process)

    def local_main_process_first(self):
        return machine.first(self.is_local_main_process)

    def _only(self, function, holds):
        @functools.wraps(function)
        def call(*arguments, **named):
            return function(*arguments, **named) if holds() else None

        return call

    def on_main_process(self, function=None):
        return self.on_main_process if function is None else self._only(function, lambda: self.is_main_process)

    def on_local_main_process(self, function=None):
        return self.on_local_main_process if function is None else self._only(function, lambda: self.is_local_main_process)

    def on_last_process(self, function):
        return self._only(function, lambda: self.is_last_process)

    def on_process(self, function=None, process_index=None):
        if function is None:
            return functools.partial(self.on_process, process_index=process_index)
        return self._only(function, lambda: self.process_index == process_index)

    def on_local_process(self, function=None, local_process_index=None):
        if function is None:
            return functools.partial(self.on_local_process, local_process_index=local_process_index)
        return self._only(function, lambda: self.local_process_index == local_process_index)

    @contextlib.contextmanager
    def split_between_processes(self, inputs, apply_padding=False):
        """Of lists and the like; the first processes have one more where it does not divide."""
        count = machine.world_size()
        if count == 1:
            yield inputs
            return
        if not hasattr(inputs, "__len__") or isinstance(inputs, dict):
            raise Refused("trainer.accelerator.split_between_processes", "a list", f"a {type(inputs).__name__}", "split each list of it")
        size, more = divmod(len(inputs), count)
        first = self.process_index * size + min(self.process_index, more)
        part = inputs[first:first + size + (self.process_index < more)]
        missing = size + (more > 0) - len(part)
        yield part + part[-1:] * missing if apply_padding and missing and isinstance(part, list) else part

    def _alone(self, name):
        if machine.world_size() > 1:
            raise Refused(f"trainer.accelerator.{name}", "one process", f"{machine.world_size()} processes",
                          "use torch.distributed; the metrics of the run are already of all ranks")

    def gather(self, tensor):
        self._alone("gather")
        return tensor

    def gather_for_metrics(self, tensor, use_gather_object=False):
        self._alone("gather_for_metrics")
        return tensor

    def reduce(self, tensor, reduction="sum", scale=1.0):
        self._alone("reduce")
        return tensor if scale == 1.0 else tensor * scale

    def pad_across_processes(self, tensor, dim=0, pad_index=0, pad_first=False):
        self._alone("pad_across_processes")
        return tensor

    # ---- the model

    def unwrap_model(self, model, keep_fp32_wrapper=True, keep_torch_compile=True):
        return model

    def get_state_dict(self, model, unwrap=True):
        return model.state_dict()

    def save_model(self, model, save_directory, max_shard_size="10GB", safe_serialization=True):
        model.save_pretrained(save_directory)

    def save(self, obj, f, safe_serialization=False):
        """As accelerate: of the main process only."""
        if not self.is_main_process:
            return
        if safe_serialization:
            from safetensors.torch import save_file
            save_file(obj, f, metadata={"format": "pt"})
        else:
            import torch
            torch.save(obj, f)

    # ---- ends

    def end_training(self):
        """Loggers end with the run."""

    def free_memory(self, *objects):
        """The program's memory is free when train() returns."""
        return list(objects)

    clear = free_memory
