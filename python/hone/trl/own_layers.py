"""What a model of this process computes otherwise than transformers' class does. TRL would call it in each pass; hone computes by itself.

Looked at: the class of each module, a `forward` that was put in the place of its own, and its hooks.
"""
from hone.errors import Refused

# Whose modules, functions and hooks compute what their files say, or what an option of hone says.
KNOWN = ("transformers", "torch", "peft", "bitsandbytes", "accelerate", "trl", "liger_kernel", "kernels", "unsloth", "unsloth_zoo", "fla", "flash_attn",
         "apex", "torchao", "optimum", "gptqmodel", "hqq", "compressed_tensors")
# Hooks of scripts that train adapters with gradient checkpointing: in hone the gradient needs none.
OF_CHECKPOINTING = ("make_inputs_require_grad", "make_inputs_require_grads")
HOOKS = {"_forward_hooks": "a forward hook", "_forward_pre_hooks": "a forward pre-hook", "_backward_hooks": "a backward hook",
         "_backward_pre_hooks": "a backward pre-hook"}


def is_known(one):
    one = getattr(one, "func", one)  # of a functools.partial
    return (getattr(one, "__module__", None) or "").split(".")[0] in (*KNOWN, "transformers_modules")


def changed_in(kind):
    """What a script's own class has in the place of a library's: "forward"; "" where it adds names alone, or begins otherwise."""
    library = next((one for one in kind.__mro__ if is_known(one)), None)
    if library is None:
        return "layers"
    own = [name for one in kind.__mro__[:kind.__mro__.index(library)] for name, value in vars(one).items()
           if hasattr(library, name) and not isinstance(value, type) and (callable(value) or hasattr(value, "__get__"))]
    return min((name for name in own if name == "__call__" or not name.startswith("__")), default="")


def first_of(model):
    """(name of the module, what it has); None where transformers computes all of it."""
    named = getattr(model, "named_modules", None)
    for name, module in named() if named is not None else ():
        changed = changed_in(type(module))
        if changed:
            return name, f"the class {type(module).__name__} of {type(module).__module__}, which has its own {changed}"
        own = vars(module).get("forward") or getattr(type(module), "forward", None)
        if own is not None and not is_known(own):
            return name, "another function in the place of its forward"
        for place, what in HOOKS.items():
            for hook in (vars(module).get(place) or {}).values():
                shown = getattr(hook, "__name__", type(hook).__name__)
                if not is_known(hook) and shown not in OF_CHECKPOINTING:
                    return name, f"{what}, {shown}"
    return None


def refuse(model, where):
    """`model`: an object with modules; None and what has no modules are taken."""
    found = first_of(model)
    if found:
        name, what = found
        raise Refused(f"{where}{f'.{name}' if name else ''}", "what transformers computes: hone computes by itself, and never calls this", what,
                      "take it away again (a hook by its handle's remove()), or train this model with TRL")
