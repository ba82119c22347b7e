import shutil

from staging import TINY, edit_json

shutil.copytree(TINY / "adapter", "adapter")
edit_json("adapter/adapter_config.json", base_model_name_or_path="somebody/model")
