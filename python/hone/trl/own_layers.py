"""What a model of this process computes otherwise than transformers' class does. TRL would call it in each pass; hone computes by itself.

Looked at: the class of each module, a `forward` or a loss that was put in the place of its own, and its hooks.
"""
from hone.errors import Refused

# Whose modules, functions and hooks compute what their files say, or what an option of hone says.
KNOWN = ("transformers", "torch", "peft", "bitsandbytes", "accelerate", "trl", "liger_kernel", "kernels", "fla", "flash_attn",
         "apex", "torchao", "optimum", "gptqmodel", "hqq", "compressed_tensors")
# Hooks of scripts that train adapters with gradient checkpointing: in hone the gradient needs none.
OF_CHECKPOINTING = ("make_inputs_require_grad", "make_inputs_require_grads")
HOOKS = {"_forward_hooks": "a forward hook", "_forward_pre_hooks": "a forward pre-hook", "_backward_hooks": "a backward hook",
         "_backward_pre_hooks": "a backward pre-hook"}


# What a class may have of its own: hone asks for none of it, or looks at it elsewhere.
OUTSIDE = frozenset((
    "save_pretrained from_pretrained push_to_hub init_weights _init_weights post_init to train eval generate prepare_inputs_for_generation can_generate "
    "num_parameters parameters named_parameters print_trainable_parameters state_dict load_state_dict extra_repr device dtype name_or_path tie_weights "
    "get_input_embeddings set_input_embeddings get_output_embeddings set_output_embeddings resize_token_embeddings gradient_checkpointing_enable "
    "gradient_checkpointing_disable enable_input_require_grads").split())


def home_of(one):
    """The package that a class or a function is written in. A copied `__module__`, as functools.wraps makes one, is not believed."""
    for inside in ("__func__", "func", "__func__"):  # of a method, of a functools.partial
        one = getattr(one, inside, one)
    name = getattr(one, "__globals__", {}).get("__name__") or getattr(one, "__module__", None) or ""
    return name.split(".")[0]


def is_known(one):
    """Whether libraries have made it: a function, and what it wraps."""
    while one is not None:
        home = home_of(one)
        if home not in KNOWN and not home.startswith(("unsloth", "transformers_modules")):
            return False
        one = None if isinstance(one, type) else getattr(one, "__wrapped__", None)
    return True


def changed_in(kind):
    """What a script's own class has in the place of a library's: "forward"; "" where it adds names alone, or begins otherwise."""
    library = next((one for one in kind.__mro__ if is_known(one)), None)
    if library is None:
        return "layers"
    own = [name for one in kind.__mro__[:kind.__mro__.index(library)] for name, value in vars(one).items()
           if hasattr(library, name) and not isinstance(value, type) and (callable(value) or hasattr(value, "__get__"))]
    return min((name for name in own if name == "__call__" or not name.startswith("__") and name not in OUTSIDE), default="")


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
        loss = vars(module).get("_loss_function")
        if loss is not None and not is_known(loss):
            return name, "another loss_function"
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
