import pathlib
import shutil

from staging import TINY

shutil.copytree(TINY.parent / "tiny_qwen2", "model", ignore=shutil.ignore_patterns("golden*", "adapter"))
for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copyfile(TINY / name, pathlib.Path("model") / name)
pathlib.Path("model/model-00002-of-00003.safetensors").unlink()
