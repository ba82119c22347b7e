"""The place where TRL had generate_rollout_completions."""
from hone.trl import generate_rollout_completions

__all__ = ["generate_rollout_completions"]
