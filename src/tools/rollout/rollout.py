# The process that runs the user's rollout function (rollout_host.h). python/worker_base.py and hone/rollouts.py come before this text.
#   {"do": "load", "file" | "module", "function"}        -> {"name"} or {"fault": {...}}
#   {"do": "rollout", "prompts", "about": {...}}          -> {"rollout": {...}} or {"fault": {...}}; before that, as often as it likes,
#     {"generate": {"prompts", "overrides"}}              <- {"completions": [...]} or {"refused": {...}}

FRAMES = queue.Queue()


class Asked(ValueError):
    """A request for completions that the program refuses."""


def generated(request):
    send({"generate": request})
    frame = FRAMES.get()
    if frame is None:
        raise SystemExit("hone has ended")
    reply = json.loads(frame)
    if "refused" in reply:
        parts = reply["refused"]
        error = Asked(f"[{parts['where']}] expected {parts['expected']}\n  found:  {parts['found']}" +
                      (f"\n  do:     {parts['fix']}" if parts["fix"] else ""))
        error.hone_refused = parts
        raise error
    return reply["completions"]


class Elsewhere:
    """trainer.model: the program has it."""

    def __init__(self, training):
        self.training = training

    def __getattr__(self, name):
        raise AttributeError(f"trainer.model has no {name!r} here: the program trains the model. trainer.generate_rollout_completions(prompts) "
                             "samples with it as it is now")


class Trainer:
    """What a rollout function of a file gets as its trainer: the run's options, its state, its tokenizer."""

    hone_about = {}
    hone_generated = staticmethod(generated)

    def hone_begin(self, about):
        self.hone_about = about
        self.args = types.SimpleNamespace(**about["options"])
        self.state = types.SimpleNamespace(**about["state"])
        self.model = Elsewhere(about["training"])

    @property
    def processing_class(self):
        if "tokenizer" not in vars(self):
            from transformers import AutoTokenizer
            self.tokenizer = AutoTokenizer.from_pretrained(self.hone_about["model"])
        return self.tokenizer

    def generate_rollout_completions(self, prompts, *, generation_overrides=None, as_chat=None):
        """One completion of each prompt, a text or messages, sampled with the weights of now: {prompt_ids, completion_ids, logprobs, text}."""
        return generated(request_of(prompts, generation_overrides, as_chat))

    def __getattr__(self, name):
        options = vars(self).get("args")
        if options is None or name not in vars(options):
            raise AttributeError(f"the trainer of a rollout function has no {name!r}: it has args, state, processing_class, "
                                 "generate_rollout_completions and the options, such as num_generations")
        return getattr(options, name)


FUNCTION, TRAINER = None, Trainer()


def load(message):
    global FUNCTION
    where = os.path.basename(message.get("file") or message["module"])
    FUNCTION = find_function(import_module(message), message["function"], where)
    try:
        inspect.signature(FUNCTION).bind([], TRAINER)
    except TypeError as error:
        raise Fault("a function of (prompts, trainer)", str(error), "", f"def {message['function']}(prompts, trainer)")
    except ValueError:  # a builtin does not say
        pass
    return {"name": message["function"]}


def rollout(message):
    prompts, about = message["prompts"], message["about"]
    TRAINER.hone_begin(about)
    try:
        result = FUNCTION(prompts, TRAINER)
        if not getattr(FUNCTION, "hone_checked", False):
            result = checked(result, len(message["prompts"]), about["vocab_size"], about["positions"])
    except BadRollout as bad:
        raise Fault(bad.expected, bad.found, "", bad.fix)
    except BaseException as error:
        if hasattr(error, "hone_fault"):  # of a program that called hone, which raises it
            raise Fault(*error.hone_fault)
        raise Fault("a rollout function that returns its completions", trace_of(error), "", "correct the function")
    return {"rollout": result}


serve(lambda message: load(message) if message["do"] == "load" else rollout(message), FRAMES)
