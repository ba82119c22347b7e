import pathlib
import shutil

from staging import TINY

pathlib.Path("adapter").mkdir()
shutil.copyfile(TINY / "adapter" / "adapter_config.json", "adapter/adapter_config.json")
