"""A run was killed while it put its result in place: the new set is whole in .hone-result, the top has old weights."""
import pathlib
import shutil

import staging

result = pathlib.Path("out/.hone-result")
shutil.copytree(staging.TINY / "adapter", result)
(result / "made-by-hone").touch()
shutil.copyfile(staging.TINY / "adapter_second/adapter_model.safetensors", "out/adapter_model.safetensors")
