from staging import *

model = copy_model()
edit_json(model / "config.json", intermediate_size=128)
