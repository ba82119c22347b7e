"""TRL's place of GKDTrainer."""
from hone.trl import GKDConfig, GKDTrainer

__all__ = ["GKDConfig", "GKDTrainer"]
