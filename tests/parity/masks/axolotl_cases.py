"""Runs of axolotl: the set's options, the file's, rows, and what hone says where it does otherwise."""
TALK = {"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c?"},
                     {"role": "assistant", "content": "d e"}]}
SYSTEM = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]}
EMPTY_SYSTEM = {"messages": [{"role": "system", "content": ""}, {"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]}
SHAREGPT = {"conversations": [{"from": "human", "value": "a?"}, {"from": "gpt", "value": "b"}]}
ASK = {"instruction": "Add 1 and 2", "input": "", "output": "3"}
WITH_INPUT = {"instruction": "Shout", "input": "hey", "output": "HEY"}
LONG = {"messages": [{"role": "user", "content": "Say it three times, slowly, and once more"}, {"role": "assistant", "content": "it, it, it"}]}
CHAT = {"type": "chat_template"}

CASES = {
    "alpaca": {"set": {"type": "alpaca"}, "rows": [ASK, WITH_INPUT]},
    "alpaca, train_on_inputs": {"set": {"type": "alpaca"}, "options": {"train_on_inputs": True}, "rows": [ASK]},
    "chatml": {"set": CHAT, "options": {"chat_template": "chatml"}, "rows": [TALK, SYSTEM]},
    "llama3": {"set": CHAT, "options": {"chat_template": "llama3"}, "rows": [TALK, SYSTEM]},
    "gemma": {"set": CHAT, "options": {"chat_template": "gemma"}, "rows": [TALK]},
    "phi_3": {"set": CHAT, "options": {"chat_template": "phi_3"}, "rows": [TALK, SYSTEM]},
    "the tokenizer's own template": {"set": CHAT, "options": {"chat_template": "tokenizer_default"}, "rows": [TALK, SYSTEM]},
    "from and value": {"set": {**CHAT, "field_messages": "conversations", "message_property_mappings": {"role": "from", "content": "value"}},
                       "options": {"chat_template": "chatml"}, "rows": [SHAREGPT]},
    "completion": {"set": {"type": "completion"}, "rows": [{"text": "one two"}]},
    "a prompt of one's own": {"set": {"type": {"field_instruction": "ask", "field_output": "say", "format": "Q: {instruction}\nA:"}},
                              "rows": [{"ask": "a?", "say": "b"}],
                              "told": ["a row without input takes no_input_format, which is `{instruction} `, and not format"]},
    "a prompt of one's own, with input": {"set": {"type": {"field_instruction": "ask", "field_output": "say", "format": "Q: {instruction}, {input}\nA:"}},
                                          "rows": [{"ask": "a?", "input": "c", "say": "b"}]},
    "llama3, eot_tokens": {"set": CHAT, "options": {"chat_template": "llama3", "eot_tokens": ["<|eot_id|>"]}, "rows": [TALK]},
    "the set's own template": {"set": {**CHAT, "chat_template": "chatml"}, "options": {"chat_template": "llama3"}, "rows": [TALK]},
    "an empty system turn": {"set": CHAT, "options": {"chat_template": "chatml"}, "rows": [EMPTY_SYSTEM]},
    "long rows are dropped": {"set": CHAT, "options": {"chat_template": "chatml", "sequence_len": 40}, "rows": [LONG, TALK]},
    "long rows lose their end": {"set": CHAT, "options": {"chat_template": "chatml", "sequence_len": 31, "excess_length_strategy": "truncate"},
                                 "rows": [TALK]},
    "train_on_eos all": {"set": {**CHAT, "train_on_eos": "all"}, "options": {"chat_template": "chatml"}, "rows": [TALK],
                         "told": ["train_on_eos: all trains other end tokens than hone"]},
    "roles_to_train": {"set": {**CHAT, "roles_to_train": ["assistant", "user"]}, "options": {"chat_template": "chatml"}, "rows": [TALK],
                       "told": ["roles_to_train names other turns than the assistant's"]},
    "input_output": {"set": {"type": "input_output"}, "rows": [{"segments": [{"label": False, "text": "a "}, {"label": True, "text": "b"}]}],
                     "told": ["hone does not have the text of type input_output"]},
}


def files(case):
    import json
    options = {"base_model": "MODEL", "micro_batch_size": 1, "gradient_accumulation_steps": 1, "num_epochs": 1, "learning_rate": 1e-4, "sequence_len": 512,
               "output_dir": "out", "datasets": [{"path": "ROWS", "ds_type": "json", **case["set"]}], **case.get("options", {})}
    return {"run.yml": "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items()), "rows.json": json.dumps(case["rows"])}
