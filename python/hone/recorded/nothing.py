"""Objects that stand for what a run does not need: loggers, engines, memory counters. Whatever is asked of them does nothing."""
import types


class Nothing:
    """Takes every call, attribute and item, and gives itself back."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setattr__(self, name, value):
        pass

    def __getitem__(self, key):
        return self

    def __setitem__(self, key, value):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False

    def __str__(self):
        return ""


class Kept(types.SimpleNamespace):
    """What was given to it, by its names; what was not is None."""

    def __init__(self, *_, **given):
        super().__init__(**given)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def to_dict(self):
        return dict(vars(self))


def module(name):
    """A module of which every name is Nothing; names with a capital are classes."""
    made = types.ModuleType(name)
    made.__path__ = []
    made.__version__ = "0"

    def found(attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        value = type(attribute, (Kept,), {"__module__": name}) if attribute[:1].isupper() else Nothing()
        setattr(made, attribute, value)
        return value

    made.__getattr__ = found
    return made
