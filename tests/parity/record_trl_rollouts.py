"""What TRL's GRPOTrainer logs of runs whose completions a rollout_func makes (rollout_cases.py), on CPU in fp32: FIXTURES/trl_rollouts.json,
{"versions", "model", "cases": {name: [one entry a step or evaluation, null for NaN]}}. usage: record_trl_rollouts.py [--out FOLDER]"""
import math
import os
import tempfile

from common import FIXTURES, options, versions, write_json
from rollout_cases import CASES, PROMPTS, SHARED, logged, reward, rollout_of

from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"


def run(name):
    more, masks = CASES[name]
    rows = Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS])
    with tempfile.TemporaryDirectory() as folder:
        args = GRPOConfig(output_dir=folder, use_cpu=True, report_to="none", disable_tqdm=True, **{**SHARED, **more})
        trainer = GRPOTrainer(str(FIXTURES / "tiny_llama"), reward, args=args, train_dataset=rows, eval_dataset=rows.select(range(2)),
                              rollout_func=rollout_of(masks))
        trainer.pop_callback(PrinterCallback)
        trainer.train()
    return [{key: None if isinstance(value, float) and math.isnan(value) else value for key, value in entry.items()} for entry in logged(trainer)]


given = options(__doc__)
write_json(given.out / "trl_rollouts.json", {"versions": versions(), "model": str(FIXTURES / "tiny_llama"),
                                              "cases": {name: run(name) for name in CASES}})
