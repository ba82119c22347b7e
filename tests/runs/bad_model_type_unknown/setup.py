from staging import *

model = copy_model()
edit_json(model / "config.json", model_type="qwen33")
