"""TRL's place of DistillationTrainer before 1.16."""
from hone.trl import DistillationConfig, DistillationTrainer

__all__ = ["DistillationConfig", "DistillationTrainer"]
