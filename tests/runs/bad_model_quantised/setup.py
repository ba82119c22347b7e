from staging import copy_model, edit_json

model = copy_model()
edit_json(model / "config.json", quantization_config={"quant_method": "gptq", "bits": 4})
