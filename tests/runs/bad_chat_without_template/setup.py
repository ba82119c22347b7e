from staging import copy_model, edit_json

model = copy_model()
edit_json(model / "tokenizer_config.json", chat_template=None)
