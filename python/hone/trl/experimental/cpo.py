"""TRL's place of CPOTrainer."""
from hone.trl import CPOConfig, CPOTrainer

__all__ = ["CPOConfig", "CPOTrainer"]
