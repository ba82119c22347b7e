"""TRL's place of OnlineDPOTrainer."""
from hone.trl import OnlineDPOConfig, OnlineDPOTrainer

__all__ = ["OnlineDPOConfig", "OnlineDPOTrainer"]
