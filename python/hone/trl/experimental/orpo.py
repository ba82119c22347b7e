"""TRL's place of ORPOTrainer."""
from hone.trl import ORPOConfig, ORPOTrainer

__all__ = ["ORPOConfig", "ORPOTrainer"]
