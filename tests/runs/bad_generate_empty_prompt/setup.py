from staging import copy_model, edit_json

model = copy_model()
edit_json(model / "tokenizer.json", post_processor=None)  # which adds <|bos|>
