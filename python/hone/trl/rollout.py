"""rollout_func of a trainer: the function of this process that makes the completions, and what it may ask the program for meanwhile."""
import traceback

from hone import rollouts
from hone.errors import Refused
from hone.trl import child

WORD = "hone.caller:rollout"
BESIDE = "call them in rollout_func, which makes whole completions; or leave rollout_func out, and the program calls them while it samples"


class Rollout:
    """`functions` has what ends the run."""

    def __init__(self, functions):
        self.functions, self.where = functions, functions.trainer
        self.function = None
        self.program = None  # child.Child while the function runs

    def take(self, given, arguments):
        """Takes TRL's argument out of `given`, if the trainer has it; the option that says it."""
        if "rollout_func" not in arguments or given.get("rollout_func") is None:
            return {}
        function = given.pop("rollout_func")
        if given.get("tools") or given.get("environment_factory") is not None:
            name = "tools" if given.get("tools") else "environment_factory"
            raise Refused(f"{self.where}, {name}", "either rollout_func or tools and environments", "both", BESIDE)
        self.hold(function)
        return {"rollout": WORD}

    def hold(self, function):
        if function is not None and not callable(function):
            raise Refused(f"{self.where}, rollout_func", "a function of (prompts, trainer)", f"a {type(function).__name__}")
        self.function = function

    def listed(self):
        return {"rollout": True} if self.function is not None else {}

    def answer(self, message, trainer, program):
        """The reply to `rollout`: what the function returned, checked; what it raises ends the run."""
        if self.functions.failure is not None:
            return {"raised": "an earlier call has raised"}
        about, count = message["about"], len(message["prompts"])
        before, self.program = self.program, program
        trainer._trained.training = about["training"]
        try:
            output = self.function(message["prompts"], trainer)
            return {"result": self._checked(output, count, about)}
        except child.ProgramEnded:
            raise
        except BaseException as error:
            self.functions.failure = error
            return {"raised": f"rollout_func raised {traceback.format_exception_only(type(error), error)[-1].strip()[:300]}"}
        finally:
            self.program = before
            trainer._trained.training = True

    def _checked(self, output, count, about):
        try:
            return rollouts.checked(output, count, about["vocab_size"], about["positions"])
        except rollouts.BadRollout as bad:
            raise Refused(f"{self.where}, rollout_func", bad.expected, bad.found, bad.fix) from None

    def generate(self, prompts, overrides, as_chat):
        where = "generate_rollout_completions"
        if self.program is None:
            raise Refused(where, "a call in rollout_func, while train() runs", "no such run",
                          f"pass the function that calls it to the trainer: {self.where}(rollout_func=...)")
        try:
            request = rollouts.request_of(prompts, overrides, as_chat)
        except rollouts.BadRollout as bad:
            raise Refused(where, bad.expected, bad.found, bad.fix) from None
        if not request["prompts"]:
            return []
        answer = self.program.ask({"generate": request})["rolled"]
        if "refused" in answer:
            parts = answer["refused"]
            raise Refused(parts["where"], parts["expected"], parts["found"], parts["fix"])
        return answer["completions"]


class WithRollout:
    """What of a trainer is about rollout_func; `_rollout` is its Rollout."""

    @property
    def rollout_func(self):
        return self._rollout.function

    @rollout_func.setter
    def rollout_func(self, function):
        self._rollout.hold(function)
        if function is not None:
            self._settings["rollout"] = WORD
        elif self._settings.get("rollout") == WORD:
            del self._settings["rollout"]

    def generate_rollout_completions(self, prompts, *, generation_overrides=None, as_chat=None):
        """In rollout_func: one completion of each prompt, sampled by the program with the weights of now."""
        return self._rollout.generate(prompts, generation_overrides, as_chat)


def generate_rollout_completions(trainer, prompts, *, generation_overrides=None, as_chat=None):
    """A completion of each prompt, sampled with the weights that `trainer` has now: [{"prompt_ids", "completion_ids", "logprobs", "text"}].

    As TRL's helper of that name, for use in a rollout_func. `prompts` are texts, conversations or lists of token ids; `generation_overrides`
    has vLLM's names: temperature, top_p, top_k, min_p, repetition_penalty, max_tokens, min_tokens, stop, stop_token_ids.
    """
    return trainer.generate_rollout_completions(prompts, generation_overrides=generation_overrides, as_chat=as_chat)
