from staging import tiny_gguf

tiny_gguf("model.gguf")
