import pathlib
import shutil

from staging import TINY

shutil.copytree(TINY / "adapter", "adapter")
pathlib.Path("adapter/adapter_config.json").write_text("[1]\n", encoding="utf-8")
