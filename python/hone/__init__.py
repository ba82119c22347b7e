"""hone post-trains language models: SFT, DPO, KTO, reward models, GRPO, RLOO, Online DPO, with TRL's option names.

`hone` on the command line and `python -m hone` start the program; `hone.trl` has TRL's trainers, which run it (docs/python.md).
"""
from hone.errors import HoneError, Refused

__all__ = ["HoneError", "Refused", "__version__"]


def __getattr__(name):
    if name == "__version__":
        from hone.program import version
        return version()
    raise AttributeError(f"module 'hone' has no attribute {name!r}")
