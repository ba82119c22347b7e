"""TRL's place of GMPOTrainer."""
from hone.trl import GMPOConfig, GMPOTrainer

__all__ = ["GMPOConfig", "GMPOTrainer"]
