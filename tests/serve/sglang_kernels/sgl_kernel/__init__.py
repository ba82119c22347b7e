"""In the place of SGLang's kernels, which PyPI has for GPUs alone: every name is there, and a call is an error."""
import importlib.abc
import importlib.machinery
import sys
import types

import torch


class Absent:
    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.name}.{name}")

    def __call__(self, *_, **__):
        raise NotImplementedError(f"{self.name} is a kernel of a GPU")


class Kernels(types.ModuleType):
    __version__ = "0.4.10"
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith("sgl_kernel.") else None

    def create_module(self, spec):
        return Kernels(spec.name)

    def exec_module(self, module):
        pass


def unpinned(function):
    return lambda *given, pin_memory=False, **named: function(*given, **named)


kernels = Kernels("sgl_kernel")
kernels.__spec__, kernels.__file__ = __spec__, __file__
sys.modules["sgl_kernel"] = kernels
sys.meta_path.insert(0, Finder())
# SGLang's LoRA pins memory, which takes a driver.
for made in ("tensor", "empty", "zeros", "ones", "full", "empty_like", "zeros_like"):
    setattr(torch, made, unpinned(getattr(torch, made)))
torch.Tensor.pin_memory = lambda self, *_, **__: self
