from staging import copy_model, edit_json

model = copy_model()
edit_json(model / "config.json", intermediate_size=128)
