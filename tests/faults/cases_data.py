"""DATA: rows, tokens, templates."""
import json

from fault import Cases
import scene

CASES = Cases()
TEMPLATE_HEAD = "{% for message in messages %}"
PLAIN_TEMPLATE = ("{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
                  "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")


@CASES.fault("DATA-01", "prompts longer than max_length: no target is left in any row")
def no_targets(s):
    s.sft([{"prompt": f"What is {a} + {b}? " * 4, "completion": f" {a + b}"} for a, b in scene.sums(60)], max_length=24)


@CASES.fault("DATA-01", "assistant_only_loss with a template without generation tags")
def no_generation_tags(s):
    s.path("plain.jinja").write_text(PLAIN_TEMPLATE)
    s.sft(scene.message_rows(), assistant_only_loss=True, chat_template_path="plain.jinja")


@CASES.fault("DATA-01", "a quarter of the rows without a target", level="warn")
def some_without_targets(s):
    rows = scene.pair_rows()
    for row in rows[::4]:
        row["prompt"] = "Please. " * 8 + row["prompt"]
    s.sft(rows, max_length=40)


@CASES.fault("DATA-02", "max_length 20 below the length of most rows", level="warn", exactly=True)
def truncated(s):
    s.sft(scene.message_rows(), max_length=20)


@CASES.fault("DATA-03", "a chat template whose assistant turns have no end")
def no_eos(s):
    s.path("open.jinja").write_text(PLAIN_TEMPLATE.replace("+ '<|im_end|>\\n' }}", "+ '\\n' }}"))
    s.sft(scene.message_rows(), chat_template_path="open.jinja")


@CASES.fault("DATA-04", "generation_config ends at another token than the template's turns", level="warn")
def other_stop(s):
    s.model()
    s.edit_json("model/generation_config.json", eos_token_id=0)
    s.edit_json("model/config.json", eos_token_id=0)
    s.edit_json("model/tokenizer_config.json", eos_token="<|endoftext|>")
    s.sft(scene.message_rows())


@CASES.fault("DATA-05", "rows that begin with the BOS that the tokenizer adds too", level="warn")
def doubled_bos(s):
    s.sft([{"text": "<|bos|>" + row["text"]} for row in scene.text_rows()])


@CASES.fault("DATA-06", "prompts that end within a token of the completion", level="warn")
def torn_boundary(s):
    s.sft([{"prompt": "The answ", "completion": f"er is {a + b}"} for a, b in scene.sums(60)])


CASES.exclude("DATA-07", "a packed row that sees the one before it")


@CASES.fault("DATA-08", "a template that drops earlier answers", level="warn")
def unstable_template(s):
    s.path("forgets.jinja").write_text(
        "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
        "{%- if message.role != 'assistant' or loop.last %}{{- message.content }}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")
    rows = [{"messages": first["messages"] + second["messages"]}
            for first, second in zip(scene.message_rows(60), reversed(scene.message_rows(60)))]
    s.sft(rows, chat_template_path="forgets.jinja")


@CASES.fault("DATA-09", "the embedding row of the end-of-turn token is 0", level="warn")
def untrained_token(s):
    s.tensor("model.embed_tokens.weight", lambda v: [0.0 if 2 * 64 <= i < 3 * 64 else x for i, x in enumerate(v)])
    s.sft(scene.message_rows())


@CASES.fault("DATA-10", "a token of the tokenizer beyond the embedding")
def outside_the_embedding(s):
    tokens = json.loads((s.model() / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    s.edit_json("model/tokenizer.json", added_tokens=[*tokens, {**tokens[0], "id": 384, "content": "<|new|>"}])
    s.sft([{"text": f"<|new|>{row['text']}"} for row in scene.text_rows()])


@CASES.fault("DATA-11", "an evaluation file with rows of the training file", level="warn", exactly=True)
def trained_evaluation(s):
    s.rows(scene.text_rows(66)[54:], "eval.jsonl")
    s.sft(eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=12)


@CASES.fault("DATA-11", "an evaluation file with other rows of the same kind", level="ok", exactly=True)
def apart_evaluation(s):
    s.rows(scene.text_rows(66)[60:], "eval.jsonl")
    s.sft(eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=12)
