"""The module `unsloth` of a script that is recorded: a model is a name with options, the tokenizer is real."""
import itertools
import os

from hone.errors import Refused
from hone.recorded import defaults, held, marked_rows, nothing, peft, record, trainers

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
FULL = ("embed_tokens", "lm_head")  # of target_modules: Unsloth trains full copies of them
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + (message['role'] if message['role'] in ('user', 'assistant') else 'system') + '\n' "
          "+ message['content'] + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA3 = ("{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim "
          "+ '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
# Texts that hone has of Unsloth's (src/config/others/trainer_texts.cpp), and the token that becomes the end of the sequence; None: it stays.
TEXTS = {"chatml": (CHATML, "<|im_end|>"), "llama-3": (LLAMA3, None), "llama3": (LLAMA3, None)}
ROLES = {"human": "user", "input": "user", "user": "user", "gpt": "assistant", "output": "assistant", "assistant": "assistant", "system": "system"}


def tokenizer_of(name, **given):
    from transformers import AutoTokenizer
    return AutoTokenizer.from_pretrained(name, **given)


class FastLanguageModel:
    """Its two functions, with Unsloth's defaults."""

    @staticmethod
    def from_pretrained(model_name="unsloth/Llama-3.2-1B-Instruct", max_seq_length=2048, dtype=None, load_in_4bit=True, load_in_8bit=False,
                        load_in_16bit=False, full_finetuning=False, token=None, revision=None, **more):
        if more.get("load_in_fp8"):
            raise Refused("from_pretrained, load_in_fp8", "4, 8 or 16 bits", "a base of float8", "leave it out")
        four = bool(load_in_4bit) and not (load_in_8bit or load_in_16bit or full_finetuning)
        settings = held.settings_of({"dtype": dtype if dtype is not None else "bfloat16", "revision": revision, "load_in_4bit": four,
                                     "load_in_8bit": bool(load_in_8bit) and not full_finetuning})
        if four:
            settings |= {"bnb_4bit_quant_type": "nf4", "use_bnb_nested_quant": True}
        if str(model_name).endswith("-bnb-4bit"):
            record.note("from_pretrained", "its files are quantized already: the base is the model without -bnb-4bit, which merging needs")
        tokenizer = tokenizer_of(os.fspath(model_name), **({"token": token} if token else {}))
        return held.Held(os.fspath(model_name), settings, unsloth=True, limit=max_seq_length), tokenizer

    @staticmethod
    def get_peft_model(model, r=16, target_modules=None, lora_alpha=16, lora_dropout=0.0, bias="none", layers_to_transform=None, layers_pattern=None,
                       use_gradient_checkpointing="unsloth", random_state=3407, max_seq_length=2048, use_rslora=False, modules_to_save=None,
                       init_lora_weights=True, loftq_config=None, **more):
        for name in ("finetune_language_layers", "finetune_attention_modules", "finetune_mlp_modules"):
            if more.get(name) is False:
                raise Refused(f"get_peft_model, {name}", "target_modules, which names the linears", f"{name}=False", "write target_modules")
        targets, saved = TARGETS if target_modules is None else target_modules, list(modules_to_save or ())
        if not isinstance(targets, str):
            whole = [name for name in targets if name in FULL]
            if whole:
                record.note("get_peft_model, target_modules", f"{' and '.join(whole)}: full copies in Unsloth, as lora_modules_to_save")
            targets, saved = [name for name in targets if name not in FULL], [*saved, *(name for name in whole if name not in saved)]
        known = {name: more[name] for name in ("use_dora", "rank_pattern", "alpha_pattern", "target_parameters") if more.get(name)}
        return peft.adapted(model, peft.LoraConfig(r=r, target_modules=targets, lora_alpha=lora_alpha, lora_dropout=lora_dropout, bias=bias,
                                                   layers_to_transform=layers_to_transform, layers_pattern=layers_pattern, use_rslora=use_rslora,
                                                   modules_to_save=saved or None, init_lora_weights=init_lora_weights, task_type="CAUSAL_LM",
                                                   loftq_config=loftq_config or {}, **known))

    @staticmethod
    def for_inference(model, *_, **__):
        return model

    for_training = for_inference


class FastVisionModel:
    @staticmethod
    def from_pretrained(*_, **__):
        raise Refused("FastVisionModel", "a model that reads text", "one that reads pictures", "hone trains on text: FastLanguageModel")


# ---- templates and rows

def get_chat_template(tokenizer, chat_template="chatml", mapping=None, map_eos_token=True, system_message=None, **_):
    """The tokenizer with Unsloth's text, where hone has it; else with the one that it has, and a note."""
    name, end = chat_template[0] if isinstance(chat_template, (tuple, list)) else chat_template, None
    if isinstance(chat_template, (tuple, list)) or "{%" in str(chat_template) or "{{" in str(chat_template):
        text = name  # Unsloth changes no token for a text of the script's
    elif name in TEXTS:
        text, end = TEXTS[name]
    elif getattr(tokenizer, "chat_template", None):
        text = tokenizer.chat_template
        record.note("get_chat_template", f"Unsloth's text {name!r} is none of hone's: the rows are spelled by the tokenizer's own template")
    else:
        raise Refused("get_chat_template", f"a text that hone has ({', '.join(TEXTS)}), or a tokenizer with a template", f"{name!r}",
                      "set tokenizer.chat_template to the text")
    if end not in (None, tokenizer.eos_token) and map_eos_token:
        tokenizer = ended_by(tokenizer, end)
    tokenizer.chat_template = text
    names = {value: key for key, value in (mapping or {}).items()}
    if names and names != {"role": "role", "content": "content", "user": "user", "assistant": "assistant"}:
        renamed(tokenizer, names)
    return tokenizer


def ended_by(tokenizer, end):
    """The tokenizer in which `end` is the text of the token that ends a sequence: the two change places, or it takes the place, as in Unsloth."""
    before, inner = tokenizer.eos_token, getattr(tokenizer, "_tokenizer", None)
    if inner is None:
        record.note("get_chat_template", f"the tokenizer cannot be changed: {end!r} does not become the end of the sequence, as in Unsloth")
        return tokenizer
    kept, text = "<|the text of the end|>", inner.to_str()
    has = end in text
    text = text.replace(before, kept).replace(end, before).replace(kept, end) if has else text.replace(before, end)
    record.note("get_chat_template", f"{end!r} takes the number of {before!r} in the tokenizer" + (", and gives it its own" if has else ""))
    pad = tokenizer.pad_token
    made = type(tokenizer)(tokenizer_object=inner.from_str(text), bos_token=tokenizer.bos_token, eos_token=end, unk_token=tokenizer.unk_token,
                           pad_token=end if pad == before else pad)
    made.padding_side, made.name_or_path = tokenizer.padding_side, tokenizer.name_or_path
    return made


def renamed(tokenizer, names):
    """Of a mapping {"role": "from", "user": "human", ...}: turns are read by these names."""
    own, roles = tokenizer.apply_chat_template, {key: value for key, value in names.items() if value in ("user", "assistant", "system")}

    def turn(one):
        out = {names.get(key, key): value for key, value in one.items()}
        return {**out, "role": roles.get(out.get("role"), out.get("role"))}

    def apply(conversation, *arguments, **given):
        several = bool(conversation) and isinstance(conversation[0], (list, tuple))
        made = [[turn(one) for one in each] for each in conversation] if several else [turn(one) for one in conversation]
        return own(made, *arguments, **given)

    tokenizer.apply_chat_template = apply


def standardize_sharegpt(dataset, *_, **__):
    """Turns with any two names become those of role and content, in the column conversations."""
    few = list(itertools.islice(dataset, 10))
    if not few or "conversations" not in few[0]:
        return dataset
    role, content = names_of_turns([turn for row in few for turn in row["conversations"]])

    def standard(row):
        unknown = next((one[role] for one in row["conversations"] if known(one[role]) not in ROLES), None)
        if unknown is not None:
            raise Refused("standardize_sharegpt", f"turns of {', '.join(ROLES)}", f"{unknown!r}", "rename it with dataset.map(function)")
        return {"conversations": [{"role": ROLES[known(one[role])], "content": one[content]} for one in row["conversations"]]}

    return dataset.map(standard)


def known(role):
    return str(role).strip().lower()


def names_of_turns(turns):
    """(the name of a turn's role, that of its text), as Unsloth finds them: by the values, then the name, then how many values there are."""
    names = list(turns[0])
    if len(names) != 2 or any(set(turn) != set(names) for turn in turns):
        raise Refused("standardize_sharegpt", "turns with two names", f"{', '.join(names)}", "leave one role and one text with dataset.map(function)")
    of_roles = [name for name in names if all(known(turn[name]) in ROLES for turn in turns)]
    named = [name for name in names if known(name) in ("role", "from")]
    if len(of_roles) == 1:
        role = of_roles[0]
    elif len(of_roles) == 2 and len(named) == 1:
        role = named[0]
    else:
        role = names[0] if len({turn[names[0]] for turn in turns}) < len({turn[names[1]] for turn in turns}) else names[1]
    return role, next(name for name in names if name != role)


def to_sharegpt(dataset, *_, **__):
    raise Refused("to_sharegpt", "rows of messages", "a text of Unsloth's that merges columns", "make the messages with dataset.map(function)")


def trained(trainer, *_, **__):
    return trainer.train()


def names():
    """What `unsloth` and its modules have."""
    def yes(*_, **__):
        record.tell_gpu("is_bfloat16_supported")
        return True

    return {"FastLanguageModel": FastLanguageModel, "FastModel": FastLanguageModel, "FastLlamaModel": FastLanguageModel,
            "FastMistralModel": FastLanguageModel, "FastQwen2Model": FastLanguageModel, "FastVisionModel": FastVisionModel,
            "is_bfloat16_supported": yes, "is_bf16_supported": yes, "get_chat_template": get_chat_template,
            "standardize_sharegpt": standardize_sharegpt, "standardize_data_formats": standardize_sharegpt, "to_sharegpt": to_sharegpt,
            "train_on_responses_only": marked_rows.responses_only, "unsloth_train": trained, "PatchFastRL": nothing.Nothing(),
            "UnslothTrainer": trainers.recorded_class("SFT"), "UnslothTrainingArguments": defaults.unsloth_config("SFT"),
            "CHAT_TEMPLATES": dict(TEXTS)}


def make(name):
    module = nothing.module(name)
    vars(module).update(names())
    return module
