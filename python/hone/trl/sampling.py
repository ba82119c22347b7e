"""What trainers that sample have of their sampling, as TRL's scripts look at it: the program samples by the options."""
import json
import sys

from hone.errors import Refused
from hone.trl import attributes, evaluation, live, models


ENTROPY_STATE = "entropy_ctrl_state.json"  # of a checkpoint, as TRL names it


class Masks:
    """TRL's functions of tensors that say which tokens and completions count: for scripts that call them. The program has its own."""

    @staticmethod
    def get_off_policy_mask(advantages, per_token_logps, sampling_per_token_logps, mask, off_policy_threshold):
        """1 where a completion counts, 0 where its advantage is negative and its mean divergence from the sampler above the threshold."""
        import torch
        apart = torch.nan_to_num(sampling_per_token_logps - per_token_logps.detach(), nan=0.0) * mask
        mean = apart.sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True).clamp(min=1.0)
        return ((advantages >= 0) | (mean <= off_policy_threshold)).to(dtype=mask.dtype)

    def get_high_entropy_mask(self, entropies, mask, threshold):
        """Where a token that counts has an entropy of at least the quantile `threshold` of all of them, on all processes."""
        import torch
        none = -1.0  # no entropy is negative
        counted = self.accelerator.pad_across_processes(entropies[mask.bool()].float(), dim=0, pad_index=none)
        counted = self.accelerator.gather(counted)
        counted = counted[counted != none]
        if counted.numel() == 0:
            return torch.zeros_like(entropies, dtype=torch.bool)
        return (entropies >= torch.quantile(counted, threshold)) & mask.bool()


class Sampling:
    """The part of a trainer that has reward_weights and generation_config."""

    @property
    def reward_weights(self):
        """One for each reward function: a tensor of torch where this process has torch, as in TRL."""
        if self._name not in models.SAMPLERS:
            raise AttributeError(f"{type(self).__name__} has no attribute 'reward_weights'.")
        given, own = self.args.reward_weights, len(self._tools.reward_functions())
        weights = ([1.0] * (len(self.reward_func_names) - own) if given is None else list(given)) + [1.0] * own
        torch = sys.modules.get("torch")
        return weights if torch is None else torch.tensor(weights, dtype=torch.float32)

    @reward_weights.setter
    def reward_weights(self, value):
        weights, own = None if value is None else [float(one) for one in value], len(self._tools.reward_functions())
        if own and weights is not None:  # as it reads: those of environments stand behind the others
            if weights[-own:] != [1.0] * own:
                raise Refused(f"{type(self).__name__}.reward_weights", "a weight of 1 for the rewards of environments, which stand last",
                              repr(weights), "let get_reward return the weighted score")
            weights = weights[:-own]
        self.args.reward_weights = weights

    @property
    def _logs(self):
        """TRL's table of completions, of the last batch that the functions of this process have scored."""
        if self._name not in models.SAMPLERS:
            raise AttributeError(f"{type(self).__name__} has no attribute '_logs'.")
        return self._functions.last

    @property
    def entropy_coef(self):
        """The option; of use_adaptive_entropy what the run has made of it, as its last checkpoint says, or else its log."""
        if not hasattr(self.args, "entropy_coef"):
            raise AttributeError(f"{type(self).__name__} has no attribute 'entropy_coef'.")
        if not self.args.use_adaptive_entropy or self.state.global_step == 0:
            return self.args.entropy_coef
        try:
            return json.loads((evaluation.last_checkpoint(self) / ENTROPY_STATE).read_text(encoding="utf-8"))["entropy_coef"]
        except (Refused, OSError):
            logged = [entry["entropy_coef"] for entry in self.state.log_history if "entropy_coef" in entry]
        return logged[-1] if logged else self.args.entropy_coef

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
