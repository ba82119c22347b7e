"""Modules in the place of others, and modules that are changed when they have been imported."""
import importlib.abc
import importlib.machinery
import importlib.util
import sys


class Made(importlib.abc.Loader):
    """Of a module that a function makes."""

    def __init__(self, make):
        self.make = make

    def create_module(self, spec):
        return self.make(spec.name)

    def exec_module(self, module):
        pass


class Changed(importlib.abc.Loader):
    """The module's own loader, and then `change(module)`."""

    def __init__(self, loader, change):
        self.loader, self.change = loader, change

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        self.change(sys.modules.get(module.__name__, module))


class Finder(importlib.abc.MetaPathFinder):
    """`made`: {first part of a name: function(name)}; `changed`: {name: function(module)}."""

    def __init__(self, made, changed):
        self.made, self.changed, self.busy = made, changed, set()

    def find_spec(self, name, path=None, target=None):
        make = self.made.get(name.partition(".")[0])
        if make is not None:
            return importlib.machinery.ModuleSpec(name, Made(make), is_package=True)
        if name not in self.changed or name in self.busy:
            return None
        self.busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Changed(spec.loader, self.changed[name])
        return spec


def install(made, changed):
    for name in list(sys.modules):
        if name.partition(".")[0] in made:
            del sys.modules[name]
    sys.meta_path.insert(0, Finder(made, changed))
