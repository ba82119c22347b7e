from staging import *

model = copy_model()
edit_json(model / "tokenizer_config.json", chat_template=None)
