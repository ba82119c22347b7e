"""What a model of this process computes otherwise than transformers' class does. TRL would call it in each pass; hone computes by itself.

Looked at: the class of each module, a `forward` that was put in the place of its own, and its hooks.
"""
from hone.errors import Refused

# Whose modules, functions and hooks compute what their files say, or what an option of hone says.
KNOWN = ("transformers", "torch", "peft", "bitsandbytes", "accelerate", "trl", "liger_kernel", "kernels", "unsloth", "unsloth_zoo")
# Hooks of scripts that train adapters with gradient checkpointing: in hone the gradient needs none.
OF_CHECKPOINTING = ("make_inputs_require_grad", "make_inputs_require_grads")
HOOKS = {"_forward_hooks": "a forward hook", "_forward_pre_hooks": "a forward pre-hook", "_backward_hooks": "a backward hook",
         "_backward_pre_hooks": "a backward pre-hook"}


def is_known(one):
    return (getattr(one, "__module__", None) or "").split(".")[0] in (*KNOWN, "transformers_modules")


def first_of(model):
    """(name of the module, what it has); None where transformers computes all of it."""
    named = getattr(model, "named_modules", None)
    for name, module in named() if named is not None else ():
        if not is_known(type(module)):
            return name, f"the class {type(module).__name__} of {type(module).__module__}"
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
