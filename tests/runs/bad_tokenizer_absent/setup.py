from staging import copy_model

model = copy_model()
(model / "tokenizer.json").unlink()
