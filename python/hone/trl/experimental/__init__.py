"""The places of TRL's experimental trainers: `from hone.trl.experimental.online_dpo import OnlineDPOTrainer`."""
