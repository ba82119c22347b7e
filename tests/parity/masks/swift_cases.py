"""Runs of ms-swift: options, rows, and what hone says where it does otherwise."""
TALK = {"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c?"},
                     {"role": "assistant", "content": "d e"}]}
SYSTEM = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]}
ASK = {"query": "Add 1 and 2", "response": "3"}
EMPTY_SYSTEM = {"messages": [{"role": "system", "content": ""}, {"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]}
SHAREGPT = {"conversations": [{"from": "human", "value": "a?"}, {"from": "gpt", "value": "b"}]}
THINKS = {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "<think>\neasy\n</think>\n\n2"}]}
LONG = {"query": "Say it three times, slowly", "response": "it, it, it"}
PAIR = {"query": "a?", "response": "yes", "rejected_response": "no"}

CASES = {
    "query and response, qwen2_5's default system": {"options": {"template": "qwen2_5"}, "rows": [ASK]},
    "messages, llama3": {"options": {"template": "llama3"}, "rows": [TALK, SYSTEM]},
    "messages, chatml, system": {"options": {"template": "chatml", "system": "Be kind."}, "rows": [TALK, SYSTEM]},
    "sharegpt, gemma": {"options": {"template": "gemma"}, "rows": [SHAREGPT]},
    "two turns, gemma": {"options": {"template": "gemma"}, "rows": [TALK]},
    "alpaca, qwen": {"options": {"template": "qwen"}, "rows": [{"instruction": "Shout", "input": "hey", "output": "HEY"}]},
    "qwen3, with and without thoughts": {"options": {"template": "qwen3"}, "rows": [TALK, THINKS]},
    "an empty system turn": {"options": {"template": "qwen2_5"}, "rows": [EMPTY_SYSTEM]},
    "qwen3, a thought in a response": {"options": {"template": "qwen3"}, "rows": [ASK, {"query": "1+1?", "response": "<think>\neasy\n</think>\n\n2"}]},
    "qwen3 without its prefix": {"options": {"template": "qwen3", "add_non_thinking_prefix": "false"}, "rows": [ASK]},
    "loss_scale last_round": {"options": {"template": "qwen2_5", "loss_scale": "last_round"}, "rows": [TALK]},
    "loss_scale all": {"options": {"template": "qwen2_5", "loss_scale": "all"}, "rows": [TALK]},
    "long rows are dropped": {"options": {"template": "llama3", "max_length": 32}, "rows": [LONG, ASK]},
    "long rows lose their beginning": {"options": {"template": "llama3", "max_length": 16, "truncation_strategy": "left"}, "rows": [ASK]},
    "long rows lose their end": {"options": {"template": "llama3", "max_length": 18, "truncation_strategy": "right"}, "rows": [TALK]},
    "dpo": {"verb": "rlhf", "options": {"rlhf_type": "dpo", "template": "llama3"}, "rows": [PAIR]},
}


def files(case):
    import json
    import shlex
    options = {"model": "MODEL", "model_type": "llama", "dataset": "ROWS", "max_length": 512, "tuner_type": "lora", **case["options"]}
    words = [f"--{name} {shlex.quote(str(value))}" for name, value in options.items()]
    return {"run.sh": f"swift {case.get('verb', 'sft')} " + " ".join(words) + "\n", "rows.json": json.dumps(case["rows"])}
