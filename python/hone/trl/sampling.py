"""What trainers that sample have of their sampling, as TRL's scripts look at it: the program samples by the options."""
import sys

from hone.trl import attributes, live, models


class Sampling:
    """The part of a trainer that has reward_weights and generation_config."""

    @property
    def reward_weights(self):
        """One for each reward function: a tensor of torch where this process has torch, as in TRL."""
        if self._name not in models.SAMPLERS:
            raise AttributeError(f"{type(self).__name__} has no attribute 'reward_weights'.")
        given = self.args.reward_weights
        weights = [1.0] * len(self.reward_func_names) if given is None else list(given)
        torch = sys.modules.get("torch")
        return weights if torch is None else torch.tensor(weights, dtype=torch.float32)

    @reward_weights.setter
    def reward_weights(self, value):
        self.args.reward_weights = None if value is None else [float(one) for one in value]

    @property
    def _logs(self):
        """TRL's table of completions, of the last batch that the functions of this process have scored."""
        if self._name not in models.SAMPLERS:
            raise AttributeError(f"{type(self).__name__} has no attribute '_logs'.")
        return self._functions.last

    @property
    def generation_config(self):
        """transformers' GenerationConfig of the options that sampling reads; changing it changes nothing."""
        where = f"{type(self).__name__}.generation_config"
        if self._name not in models.SAMPLERS:
            attributes.refuse("generation_config", type(self).__name__, attributes.TRAINER["generation_config"])
        transformers, = live.needed(where, "transformers")
        args, tokenizer = self.args, self.processing_class
        of_args = {name: getattr(args, name, None) for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "cache_implementation")}
        length = args.max_new_tokens if self._name == "OnlineDPO" else args.max_completion_length
        values = {"max_new_tokens": length, "do_sample": True, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": tokenizer.bos_token_id,
                  "eos_token_id": self.eos_token_ids, **of_args, **(args.generation_kwargs or {})}
        return transformers.GenerationConfig(**{name: value for name, value in values.items() if value is not None})
