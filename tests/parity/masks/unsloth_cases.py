"""Scripts of Unsloth: how each makes its rows, and what of them is trained. `without`: a token that the model's tokenizer has by another name."""
import json

from masks import common

SCRIPT = """from unsloth import FastLanguageModel
from unsloth.chat_templates import get_chat_template, standardize_data_formats, standardize_sharegpt, train_on_responses_only
from datasets import Dataset
from trl import SFTConfig, SFTTrainer
model, tokenizer = FastLanguageModel.from_pretrained("model", max_seq_length={limit}, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=2)
TALK = [{{"role": "user", "content": "a?"}}, {{"role": "assistant", "content": "b"}}, {{"role": "user", "content": "c?"}},
        {{"role": "assistant", "content": "d e"}}]
RULED = [{{"role": "system", "content": "Be brief."}}, {{"role": "user", "content": "a?"}}, {{"role": "assistant", "content": "yes"}}]
TOOLS = [{{"role": "user", "content": "t?"}}, {{"role": "assistant", "content": "call"}}, {{"role": "tool", "content": "7"}},
         {{"role": "assistant", "content": "7!"}}]
SAID = [[{{"from": "system", "value": "Be brief."}}, {{"from": "human", "value": "a?"}}, {{"from": "gpt", "value": "b"}}],
        [{{"from": "human", "value": "c?"}}, {{"from": "gpt", "value": "d e"}}]]


def spelled(chats):
    return Dataset.from_list([{{"text": tokenizer.apply_chat_template(chat, tokenize=False)}} for chat in chats])


{rows}
trainer = SFTTrainer(model=model, processing_class=tokenizer, train_dataset=rows,
                     args=SFTConfig(output_dir="out", max_steps=1, report_to="none"{options}){arguments})
{marks}
trainer.train()
"""
CHATML = 'tokenizer = get_chat_template(tokenizer, chat_template="chatml")\n'
LLAMA3 = 'tokenizer = get_chat_template(tokenizer, chat_template="llama-3")\n'
ALPACA = '''PROMPT = "Below is a task.\\n\\n### Instruction:\\n{}\\n\\n### Response:\\n{}"
rows = Dataset.from_list([{"q": "Add 1 and 2", "a": "3"}, {"q": "Shout hey", "a": "HEY"}])
'''
TEXTS = "rows = rows.map(lambda batch: {'text': [PROMPT.format(q, a) + tokenizer.eos_token for q, a in zip(batch['q'], batch['a'])]}, batched=True)"
OF_CHATML = 'trainer = train_on_responses_only(trainer, instruction_part="<|im_start|>user\\n", response_part="<|im_start|>assistant\\n"{})'
OF_LLAMA3 = ('trainer = train_on_responses_only(trainer, instruction_part="<|start_header_id|>user<|end_header_id|>\\n\\n",\n'
             '                                  response_part="<|start_header_id|>assistant<|end_header_id|>\\n\\n")')
OF_ALPACA = 'trainer = train_on_responses_only(trainer, instruction_part="### Instruction:\\n", response_part="### Response:\\n"{})'

CASES = {
    "chatml, every token": {"rows": CHATML + "rows = spelled([RULED, TOOLS])"},
    "chatml, answers": {"rows": CHATML + "rows = spelled([TALK, RULED])", "marks": OF_CHATML.format("")},
    "a tool's turn ends an answer": {"rows": "rows = spelled([TOOLS])", "marks": OF_CHATML.format("")},
    "the last answer": {"rows": "rows = spelled([TALK])", "marks": OF_CHATML.format(", last_response_only=True")},
    "an answer without a token": {"rows": 'rows = spelled([[TALK[0], {"role": "assistant", "content": "<think>1</think>2"}]])',
                                  "marks": OF_CHATML.format(', mask_out_tokens=["</think>"]')},
    "llama-3, answers": {"rows": LLAMA3 + "rows = spelled([TALK, TOOLS])", "marks": OF_LLAMA3},
    "sharegpt, llama-3, answers": {
        "rows": LLAMA3 + 'rows = spelled(standardize_sharegpt(Dataset.from_list([{"conversations": one} for one in SAID]))["conversations"])',
        "marks": OF_LLAMA3},
    "other names of turns": {
        "rows": CHATML + 'rows = Dataset.from_list([{"conversations": [{"said": "user", "who": "Human"}, {"said": "b", "who": "GPT "}]}])\n'
                         'rows = spelled(standardize_data_formats(rows)["conversations"])'},
    "sharegpt by a mapping": {
        "rows": 'tokenizer = get_chat_template(tokenizer, chat_template="chatml", map_eos_token=False,\n'
                '                              mapping={"role": "from", "content": "value", "user": "human", "assistant": "gpt"})\nrows = spelled(SAID)'},
    "alpaca, every token, llama-3": {"rows": LLAMA3 + ALPACA + TEXTS},
    "alpaca, answers, not forced": {"rows": ALPACA + TEXTS, "marks": OF_ALPACA.format(", force_match=False")},
    "alpaca by formatting_func": {
        "rows": ALPACA, "arguments": ",\n                     formatting_func=lambda batch: [PROMPT.format(q, a) for q, a in zip(batch['q'], batch['a'])]"},
    "messages": {"rows": 'rows = Dataset.from_list([{"messages": TALK}])'},
    "messages, answers by option": {"rows": 'rows = Dataset.from_list([{"messages": TALK}])', "options": ", assistant_only_loss=True"},
    "messages, answers": {"rows": 'rows = Dataset.from_list([{"messages": TALK}])', "marks": OF_CHATML.format("")},
    "prompt and completion": {"rows": 'rows = Dataset.from_list([{"prompt": "Add 1 and 2 =", "completion": " 3"}])'},
    "a text of the script's": {
        "rows": """tokenizer = get_chat_template(tokenizer, chat_template=("{% for turn in messages %}[{{ turn['role'] }}]{{ turn['content'] }}<stop>"
                                                             "{% endfor %}", "<stop>"))\nrows = spelled([TALK])""",
        "marks": 'trainer = train_on_responses_only(trainer, "[user]", "[assistant]")'},
    "chatml, another token ends": {"rows": 'tokenizer.eos_token = "</s>"\n' + CHATML + "rows = spelled([TALK])", "marks": OF_CHATML.format("")},
    "chatml, a new token": {"without": "<|im_end|>", "rows": CHATML + "rows = spelled([TALK])", "marks": OF_CHATML.format("")},
    "rows that are cut": {"rows": CHATML + "rows = spelled([TALK, [RULED[1], RULED[2]]])", "limit": 16, "marks": OF_CHATML.format("")},
    "no answer is left": {"rows": CHATML + "rows = spelled([TALK, [RULED[0], RULED[1]]])", "marks": OF_CHATML.format("")},
}


def script(case):
    return SCRIPT.format(**{"limit": 512, "options": "", "arguments": "", "marks": "", **case})


def make_model(case, folder):
    """The model's folder: its embedding has a row for each token."""
    common.make_model(folder)
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**settings, "vocab_size": 512}), encoding="utf-8")
    if "without" in case:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).write_text((folder / name).read_text(encoding="utf-8").replace(case["without"], "<|its end|>"), encoding="utf-8")
