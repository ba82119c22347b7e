"""train() a second time, as in TRL: the trained parameters go on, with a new schedule, from step 0."""
import os
import shutil

from hone.errors import Refused
from hone.trl import adapters, evaluation, plan, states
from hone.trl.model_files import FILES, copy_files

FOLDER = "again"


def settings_again(trainer, settings):
    """Of a run that begins with the result of the last one, from a copy of it: the run writes over the result itself."""
    where = f"{type(trainer).__name__}.train"
    if evaluation.compares(trainer):
        raise Refused(where, "one run of a trainer whose policy is compared with a reference", "a second one, whose reference would be the trained model",
                      "make a new trainer for it, of the model that save_model(FOLDER) has written")
    settings = {**settings, "overwrite_output_dir": True}
    inputs = trainer._folder / plan.FOLDER
    if not settings.get("use_peft") and settings["model_name_or_path"] == os.fspath(inputs / states.FOLDER):
        return settings  # the object of this process has the trained parameters, and was written just now
    source, target = trainer._result_folder(), inputs / FOLDER
    shutil.rmtree(target, ignore_errors=True)
    copy_files(source, target, FILES)
    of_adapters = {*adapters.LORA.values(), "adapter_name_or_path"}
    if (target / "adapter_config.json").is_file():
        return {**{name: value for name, value in settings.items() if name not in of_adapters}, "adapter_name_or_path": os.fspath(target)}
    settings.setdefault("tokenizer_name_or_path", settings["model_name_or_path"])
    return {**settings, "model_name_or_path": os.fspath(target)}
