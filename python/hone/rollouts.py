"""What a rollout function returns, checked and as the program reads it, and what it asks for. The program's own worker has this text too."""
import math
import operator

KEYS = ("prompt_ids", "completion_ids", "logprobs")
MASK = "env_mask"


class BadRollout(ValueError):
    """What a rollout function returned is none: expected, found, what to do."""

    def __init__(self, expected, found, fix=""):
        self.expected, self.found, self.fix = expected, found, fix
        super().__init__(f"expected {expected}; found: {found}" + (f"; {fix}" if fix else ""))


def shown(value, most=80):
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else text[:most] + "..."


def listed(value, what):
    """A list, also of a tuple, an array or a tensor."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return list(value)
    raise BadRollout(f"a list as {what}", f"a {type(value).__name__}: {shown(value)}")


def whole(value, what):
    try:
        return operator.index(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError):
        raise BadRollout(f"whole numbers in {what}", shown(value)) from None


def ids_of(value, what, vocab_size):
    out = [whole(one, what) for one in listed(value, what)]
    if not out:
        raise BadRollout(f"tokens in {what}", "an empty list", "every prompt and every completion has at least one token, such as the end's")
    for at, one in enumerate(out):
        if not 0 <= one < vocab_size:
            raise BadRollout(f"token ids from 0 to {vocab_size - 1} in {what}, the model's vocabulary", f"{one} at place {at}",
                             "take the ids of this model's tokenizer, trainer.processing_class")
    return out


def number_of(value, what):
    """None for what is not known: TRL's importance ratio is 1 there."""
    if value is None:
        return None
    try:
        value = float(value)
    except (TypeError, ValueError):
        raise BadRollout(f"numbers or None in {what}", shown(value), "give one log-probability for each token, without a list around it") from None
    return value if math.isfinite(value) else None


def same_length(found, wanted, what, of):
    if found != wanted:
        raise BadRollout(f"{wanted} values in {what}, one for each token of {of}", str(found))


def plain(value, what, depth=0):
    """A column's value as JSON."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth < 16 and isinstance(value, (list, tuple)):
        return [plain(one, what, depth + 1) for one in value]
    if depth < 16 and isinstance(value, dict):
        return {str(key): plain(one, what, depth + 1) for key, one in value.items()}
    for method in ("tolist", "__float__"):
        if hasattr(type(value), method):
            return plain(getattr(value, method)(), what, depth + 1)
    raise BadRollout(f"numbers, texts, lists or dicts in the column {what!r}", f"a {type(value).__name__}",
                     "return what the reward function needs of it: reward functions run in another process")


def column_of(name, value, count):
    """As in TRL a list has an entry for each completion, and anything else is the same for all."""
    if not isinstance(value, list):
        return [plain(value, name)] * count
    if len(value) != count:
        raise BadRollout(f"{count} values in the column {name!r}, one for each completion", str(len(value)))
    return [plain(one, name) for one in value]


def checked(output, count, vocab_size, positions):
    """`count`: prompts that the function was given, a completion each. The dict of rollout_host.h."""
    if not isinstance(output, dict) and not hasattr(output, "keys"):
        raise BadRollout(f"a dict with {', '.join(KEYS)}", f"{'None' if output is None else 'a ' + type(output).__name__}: rollout_func must return "
                         f"keys {sorted(KEYS)} in its output dict.", "a `return` is missing" if output is None else "")
    missing = sorted(set(KEYS) - set(output.keys()))
    if missing:
        raise BadRollout(f"a dict with {', '.join(KEYS)}",
                         f"one without {', '.join(missing)}: rollout_func must return keys {missing} in its output dict.",
                         "logprobs may be None where no importance sampling is corrected" if "logprobs" in missing else "")
    out = {MASK: None}
    for key in KEYS:
        out[key] = None if key == "logprobs" and output[key] is None else listed(output[key], key)
        if out[key] is not None and len(out[key]) != count:
            raise BadRollout(f"{count} lists in {key}, one for each prompt that the function was given", str(len(out[key])),
                             "prompts are repeated already, num_generations times each: return one completion for each of them")
    out["prompt_ids"] = [ids_of(one, f"prompt_ids[{at}]", vocab_size) for at, one in enumerate(out["prompt_ids"])]
    out["completion_ids"] = [ids_of(one, f"completion_ids[{at}]", vocab_size) for at, one in enumerate(out["completion_ids"])]
    lengths = [len(one) for one in out["completion_ids"]]
    for at, (prompt, length) in enumerate(zip(out["prompt_ids"], lengths)):
        if len(prompt) + length > positions:
            raise BadRollout(f"at most {positions} tokens, the model's positions, in prompt_ids[{at}] and completion_ids[{at}] together",
                             f"{len(prompt)} and {length}", "end the rollout earlier, or leave earlier turns out of the prompt")
    if out["logprobs"] is not None:
        out["logprobs"] = [[number_of(value, f"logprobs[{at}]") for value in listed(one, f"logprobs[{at}]")]
                           for at, one in enumerate(out["logprobs"])]
        for at, one in enumerate(out["logprobs"]):
            same_length(len(one), lengths[at], f"logprobs[{at}]", f"completion_ids[{at}]")
    if output.get(MASK) is not None:
        masks = listed(output[MASK], MASK)
        if len(masks) != count:
            raise BadRollout(f"{count} lists in {MASK}, one for each completion", str(len(masks)))
        out[MASK] = [[whole(value, f"{MASK}[{at}]") for value in listed(one, f"{MASK}[{at}]")] for at, one in enumerate(masks)]
        for at, one in enumerate(out[MASK]):
            same_length(len(one), lengths[at], f"{MASK}[{at}]", f"completion_ids[{at}]")
            if any(value not in (0, 1) for value in one):
                raise BadRollout(f"1 for a token that the model drew and 0 for another in {MASK}[{at}]", shown(one))
    out["columns"] = {str(name): column_of(str(name), value, count) for name, value in output.items() if name not in (*KEYS, MASK)}
    return out


# ---- what it asks for: completions of the model as it is now

# vLLM's names of sampling options, as TRL's generate_rollout_completions takes them; hone has these.
NUMBERS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens", "min_tokens")
NOTHING = {"n": 1, "best_of": 1, "logprobs": None, "prompt_logprobs": None, "skip_special_tokens": True, "include_stop_str_in_output": True,
           "spaces_between_special_tokens": True, "detokenize": True}
LISTS = ("stop", "stop_token_ids")
TRANSFORMERS = {"max_new_tokens": "max_tokens", "min_new_tokens": "min_tokens", "stop_strings": "stop", "eos_token_id": "stop_token_ids",
                "max_completion_length": "max_tokens"}


def number_for(name, value):
    """A number of generation_overrides, as it is written."""
    found = value.item() if hasattr(value, "item") else value
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
        raise BadRollout(f"a number as generation_overrides[{name!r}]", shown(value))
    if name in ("max_tokens", "min_tokens", "top_k") and int(found) != found:
        raise BadRollout(f"a whole number as generation_overrides[{name!r}]", shown(value))
    least = {"max_tokens": 1, "top_k": -1}.get(name, 0)
    if found < least or (name in ("top_p", "min_p") and found > 1) or (name in ("top_p", "repetition_penalty") and found <= 0):
        raise BadRollout(f"a {name} that sampling can take", shown(value))
    return int(found) if name in ("max_tokens", "min_tokens", "top_k") else found


def overrides_of(given):
    """`generation_overrides` as the program reads it."""
    out = {}
    for name, value in dict(given or {}).items():
        name = TRANSFORMERS.get(name, name)
        if value is None or (name in ("logprobs", "prompt_logprobs")):
            continue
        if name in NOTHING:
            if name in ("n", "best_of") and value != 1:
                raise BadRollout("n=1: generate_rollout_completions expects n=1.", f"{name}={value!r}",
                                 "repeat the prompt for several completions of it")
            continue
        if name in NUMBERS:
            out[name] = number_for(name, value)
        elif name in LISTS:
            several = value if isinstance(value, (list, tuple)) else [value]
            kind = str if name == "stop" else int
            if any(not isinstance(one, kind) or isinstance(one, bool) or one == "" for one in several):
                raise BadRollout(f"{'texts' if kind is str else 'token ids'} as generation_overrides[{name!r}]", shown(value))
            out[name] = list(several)
        else:
            raise BadRollout(f"one of {', '.join((*NUMBERS, *LISTS))} in generation_overrides", repr(name),
                             "randomness follows from the run's seed, the step, the call and the prompt" if name == "seed" else "leave it out")
    return out


def request_of(prompts, overrides, as_chat):
    """`prompts`: texts, or conversations, or lists of token ids."""
    if isinstance(prompts, (str, dict)) or not hasattr(prompts, "__iter__"):
        raise BadRollout("a list of prompts", f"a {type(prompts).__name__}", "write [prompt]")
    out = []
    for at, one in enumerate(prompts):
        one = one.tolist() if hasattr(one, "tolist") else one
        is_chat = isinstance(one, (list, tuple)) and bool(one) and all(isinstance(turn, dict) for turn in one)
        is_ids = isinstance(one, (list, tuple)) and bool(one) and all(isinstance(turn, int) and not isinstance(turn, bool) for turn in one)
        if not (isinstance(one, str) or is_chat or is_ids) or (as_chat is True and is_ids) or (as_chat is False and is_chat):
            raise BadRollout("a text, a conversation or a list of token ids as each prompt", f"prompt {at}: {shown(one)}")
        if isinstance(one, str) and as_chat:
            raise BadRollout("conversations as prompts with as_chat=True", f"prompt {at}: a text", 'write [{"role": "user", "content": text}]')
        out.append(one if isinstance(one, str) else [plain(turn, "prompts") for turn in one])
    return {"prompts": out, "overrides": overrides_of(overrides)}
