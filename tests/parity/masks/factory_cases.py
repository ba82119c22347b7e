"""Ten runs of LLaMA-Factory: options, dataset_info.json's entry, rows, and what hone says where it does otherwise."""
ASK = {"instruction": "Add 1 and 2", "input": "", "output": "3"}
WITH_INPUT = {"instruction": "Shout", "input": "hey", "output": "HEY"}
TALK = {"conversations": [{"from": "human", "value": "a?"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c?"}, {"from": "gpt", "value": "d e"}]}
ENDS_EARLY = {"conversations": [{"from": "human", "value": "a?"}]}
ROLES = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}
THINKS = {"instruction": "1+1?", "input": "", "output": "<think>\neasy\n</think>\n\n2"}
LONG = {"instruction": "Say it three times, slowly", "input": "", "output": "it, it, it"}
SHAREGPT = {"file_name": "rows.json", "formatting": "sharegpt"}


def talk(*turns):
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def pair(prompt, chosen, rejected):
    return {"instruction": prompt, "input": "", "chosen": chosen, "rejected": rejected}


CASES = {
    "alpaca, qwen's default system": {"options": {"template": "qwen"}, "info": {}, "rows": [ASK, WITH_INPUT]},
    "sharegpt, llama3": {"options": {"template": "llama3"}, "info": SHAREGPT, "rows": [TALK]},
    "roles, a system turn, gemma": {
        "options": {"template": "gemma"}, "info": {**SHAREGPT, "columns": {"messages": "messages"}, "tags": ROLES},
        "rows": [talk(("system", "Be brief."), ("user", "a?"), ("assistant", "b")), talk(("user", "c?"), ("assistant", "d"))]},
    "mask_history": {"options": {"template": "chatml", "mask_history": True}, "info": SHAREGPT, "rows": [TALK]},
    "train_on_prompt": {"options": {"template": "chatml", "train_on_prompt": True}, "info": {}, "rows": [ASK]},
    "qwen3, with and without thoughts": {"options": {"template": "qwen3"}, "info": {}, "rows": [ASK, THINKS]},
    "qwen3, enable_thinking false": {"options": {"template": "qwen3", "enable_thinking": False}, "info": {}, "rows": [ASK]},
    "columns of one's own, default_system, phi": {
        "options": {"template": "phi", "default_system": "Be kind."},
        "info": {"columns": {"prompt": "ask", "response": "say", "system": "who"}},
        "rows": [{"ask": "a?", "say": "b", "who": "You are K."}, {"ask": "c?", "say": "d", "who": ""}]},
    "mistral, two turns": {"options": {"template": "mistral"}, "info": SHAREGPT, "rows": [TALK]},
    "no template: the tokenizer's own": {"options": {}, "info": SHAREGPT, "rows": [TALK],
                                         "told": ["LLaMA-Factory makes a text of its own out of the tokenizer's template"]},
    "a long row": {"options": {"template": "chatml", "cutoff_len": 24}, "info": {}, "rows": [LONG],
                   "told": ["LLaMA-Factory cuts prompt and answer in proportion at 24 tokens"]},
    "pt, joined": {"options": {"stage": "pt", "cutoff_len": 16, "template": "chatml"}, "info": {"columns": {"prompt": "text"}},
                   "rows": [{"text": "one two three"}, {"text": "four five six"}],
                   "told": ["not the same pieces: LLaMA-Factory joins texts without the tokenizer's beginning of a text"]},
    "dpo": {"options": {"stage": "dpo", "template": "chatml"}, "info": {"ranking": True, "columns": {"prompt": "instruction", "query": "input", "chosen": "chosen", "rejected": "rejected"}},
            "rows": [pair("a?", "yes", "no")]},
    "a talk that ends with the user": {"options": {"template": "chatml"}, "info": SHAREGPT, "rows": [TALK, ENDS_EARLY],
                                       "told": ["a conversation whose turns do not alternate, or that ends with the user, is dropped"]},
}


def files(case):
    import json
    info = {"set": {"file_name": "rows.json", **case["info"]}}
    options = {"model_name_or_path": "MODEL", "stage": "sft", "finetuning_type": "lora", "dataset": "set", **case["options"]}
    return {"run.yaml": "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items()),
            "dataset_info.json": json.dumps(info), "rows.json": json.dumps(case["rows"])}
