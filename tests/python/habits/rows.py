"""TRL's functions of rows, templates and command lines."""
import json
import pathlib

from common import CHATS, CHAT_PAIRS, CHAT_PROMPTS, FEW, MODEL, data, habit, run_of, tokenizer_of


@habit()
def apply_chat_template():
    """rows of turns become texts: apply_chat_template, in map()"""
    from trl import apply_chat_template
    tokenizer = tokenizer_of(MODEL)
    prompts = data(CHAT_PROMPTS).map(apply_chat_template, fn_kwargs={"processing_class": tokenizer})
    return {"prompt": prompts[1]["prompt"], "text": apply_chat_template(CHATS[0], tokenizer), "pair": apply_chat_template(CHAT_PAIRS[0], tokenizer)}


@habit()
def prompts_of_pairs():
    """extract_prompt and unpair_preference_dataset make rows for KTO, which is trained on them"""
    from trl import KTOConfig, KTOTrainer, extract_prompt, unpair_preference_dataset
    rows = data([{"chosen": row["prompt"] + row["chosen"], "rejected": row["prompt"] + row["rejected"]} for row in CHAT_PAIRS])
    rows = unpair_preference_dataset(rows.map(extract_prompt))
    trainer = KTOTrainer(MODEL, args=KTOConfig("out", **FEW, loss_type="apo_zero_unpaired"), train_dataset=rows)
    return {"rows": len(rows), "first": rows[0], "last": rows[15], **run_of(trainer)}


@habit()
def messages_of_conversations():
    """maybe_convert_to_chatml of ShareGPT's rows, and is_conversational"""
    from trl import SFTConfig, SFTTrainer, is_conversational, maybe_convert_to_chatml
    rows = data([{"conversations": [{"from": turn["role"], "value": turn["content"]} for turn in row["messages"]]} for row in CHATS])
    rows = rows.map(maybe_convert_to_chatml, remove_columns="conversations")
    trainer = SFTTrainer(MODEL, args=SFTConfig("out", **FEW), train_dataset=rows)
    return {"columns": rows.column_names, "is": is_conversational(rows[0]), "is not": is_conversational({"text": "one"}), **run_of(trainer)}


@habit()
def script():
    """TrlParser with ScriptArguments, SFTConfig and ModelConfig, a file and a command line, get_dataset, get_peft_config"""
    from datasets import load_dataset
    from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser, get_peft_config
    pathlib.Path("rows").mkdir()
    pathlib.Path("rows/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHATS))
    options = {name: value for name, value in FEW.items() if name != "max_steps"}
    pathlib.Path("options.yaml").write_text(json.dumps({**options, "dataset_name": "rows", "output_dir": "out", "lora_r": 4}))
    words = ["--config", "options.yaml", "--max_steps", "2", "--model_name_or_path", MODEL, "--use_peft"]
    script_args, training_args, model_args = TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config(words)
    rows = load_dataset(script_args.dataset_name, name=script_args.dataset_config)
    trainer = SFTTrainer(model=model_args.model_name_or_path, args=training_args, train_dataset=rows[script_args.dataset_train_split],
                         peft_config=get_peft_config(model_args))
    found = run_of(trainer)
    return {"steps": found["global_step"], "first loss": found["loss"][0], "rank": get_peft_config(model_args).r, "rate": training_args.learning_rate}


@habit()
def clone_chat_template():
    """a base model and its tokenizer get the template, the tokens and the end of another"""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer, clone_chat_template
    other = AutoTokenizer.from_pretrained(MODEL)
    other.add_special_tokens({"eos_token": "<|end_of_turn|>", "additional_special_tokens": ["<|turn|>"]})
    other.chat_template = "{% for m in messages %}<|turn|>{{ m.role }} {{ m.content }}<|end_of_turn|>{% endfor %}"
    other.save_pretrained("instructed")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(MODEL), AutoTokenizer.from_pretrained(MODEL)
    torch.manual_seed(0)  # new rows are drawn
    model, tokenizer, added = clone_chat_template(model, tokenizer, "instructed")
    trainer = SFTTrainer(model, args=SFTConfig("out", **FEW), processing_class=tokenizer, train_dataset=data(CHATS))
    return {"added": added, "rows": model.get_input_embeddings().weight.shape[0], "eos": tokenizer.eos_token,
            "text": tokenizer.apply_chat_template(CHATS[0]["messages"], tokenize=False), **run_of(trainer, "num_tokens")}
