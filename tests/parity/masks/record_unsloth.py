"""Unsloth's own SFTTrainer, templates and train_on_responses_only over the scripts of unsloth_cases.py, on a processor without a GPU.

Of Unsloth only two functions are others here: from_pretrained, which asks for a GPU's properties, opens the model with transformers and its
tokenizer with Unsloth's own functions; get_peft_model returns the model. train() stops at the rows.
"""
import os
import tempfile
from importlib.metadata import version
from pathlib import Path

from masks import common, unsloth_marks
from masks.unsloth_cases import CASES, make_model, script


class Reached(BaseException):
    def __init__(self, trainer):
        self.trainer = trainer


def stopped(trainer, *_, **__):
    raise Reached(trainer)


def opened(name, max_seq_length, **_):
    from transformers import AutoConfig, AutoModelForCausalLM
    from unsloth.models._utils import patch_tokenizer
    from unsloth.tokenizer_utils import load_correct_tokenizer
    model, tokenizer = patch_tokenizer(AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name)), load_correct_tokenizer(name))
    model.max_seq_length = max_seq_length
    return model, tokenizer


def patched():
    """Unsloth with its SFTTrainer, which it leaves out itself where there is no GPU."""
    import trl
    import unsloth
    from unsloth.models import rl
    rl._patch_trl_rl_trainers("sft_trainer")
    assert trl.SFTTrainer.__name__ == "UnslothSFTTrainer", "Unsloth has not put its own trainer in the place of TRL's"
    trl.SFTTrainer.train = stopped
    unsloth.FastLanguageModel.from_pretrained = staticmethod(opened)
    unsloth.FastLanguageModel.get_peft_model = staticmethod(lambda model, **_: model)


def rows_of(case):
    try:
        exec(compile(script(case), "train.py", "exec"), {"__name__": "__main__"})
    except Reached as reached:
        trainer = reached.trainer
        out = []
        trainer._set_signature_columns_if_needed()
        for row in trainer.train_dataset:
            one = trainer.data_collator([{name: row[name] for name in row if name in trainer._signature_columns}])
            ids, labels = one["input_ids"][0].tolist(), one["labels"][0].tolist()
            assert ids[:len(row["input_ids"])] == list(row["input_ids"])
            out.append(common.row_of(ids[:len(row["input_ids"])], labels))
        return out
    raise AssertionError("the script ended before train()")


def main(check):
    os.environ.update(UNSLOTH_ALLOW_CPU="1", UNSLOTH_DISABLE_STATISTICS="1", ACCELERATE_USE_CPU="true")
    out = {}
    with tempfile.TemporaryDirectory() as scratch, common.working_in(scratch):
        patched()
        for number, (name, case) in enumerate(CASES.items()):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            make_model(case, folder / "model")
            with common.working_in(folder):
                out[name] = {"rows": rows_of(case)}
        with common.working_in(Path(scratch) / "0"):
            unsloth_marks.compare(20)
    common.write_or_compare("unsloth", version("unsloth"), out, check)
