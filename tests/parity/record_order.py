"""Records which rows a real transformers Trainer trains on, step by step.

usage: python tests/parity/record_order.py > tests/fixtures/data/order.json
The model is one number; its forward notes the ids of the rows it is given.
"""

import json
import tempfile

import accelerate
import torch
import transformers
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"row": torch.tensor(i)}


class Notes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(()))
        self.batches = []

    def forward(self, row):
        self.batches.append(row.tolist())
        return {"loss": self.w * row.float().mean()}


class Epochs(TrainerCallback):
    def __init__(self, model):
        self.model, self.steps, self.epochs = model, [], []

    def on_step_end(self, args, state, control, **kwargs):
        self.steps.append(self.model.batches)
        self.model.batches = []
        self.epochs.append(state.epoch)


def case(n, batch, accumulation, seed, epochs=3.0, max_steps=-1, data_seed=None, drop_last=False, shuffle=True):
    model = Notes()
    notes = Epochs(model)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, per_device_train_batch_size=batch, gradient_accumulation_steps=accumulation, seed=seed,
            data_seed=data_seed, num_train_epochs=epochs, max_steps=max_steps, dataloader_drop_last=drop_last,
            train_sampling_strategy="random" if shuffle else "sequential", report_to="none", use_cpu=True,
            remove_unused_columns=False, save_strategy="no", logging_strategy="no", disable_tqdm=True)
        trainer = Trainer(model, args, train_dataset=Rows(n), callbacks=[notes])
        trainer.remove_callback(PrinterCallback)  # standard output is the record
        trainer.train()
        total = trainer.state.max_steps
    return {"rows": n, "batch_size": batch, "accumulation": accumulation, "seed": seed, "data_seed": data_seed,
            "epochs": epochs, "max_steps": max_steps, "drop_last": drop_last, "shuffle": shuffle,
            "total_steps": total, "steps": notes.steps, "epoch_at": notes.epochs}


cases = [
    case(10, 4, 1, 42),
    case(10, 4, 2, 42),
    case(23, 3, 4, 7, epochs=2.0),
    case(23, 3, 4, 7, epochs=2.0, drop_last=True),
    case(23, 3, 4, 7, epochs=1.3),
    case(16, 4, 2, 42, data_seed=1234, epochs=2.0),
    case(9, 2, 2, 0, max_steps=7),
    case(9, 2, 2, 0, max_steps=7, shuffle=False),
    case(3, 8, 4, 42, epochs=2.0),
    case(300, 16, 4, 99, epochs=2.0),
]
versions = {"transformers": transformers.__version__, "accelerate": accelerate.__version__,
            "torch": torch.__version__}
print(json.dumps({"versions": versions, "cases": cases}, separators=(",", ":")))
