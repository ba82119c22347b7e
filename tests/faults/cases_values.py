"""What people get wrong that no tensor shows: values of options, weights, templates, and what a file holds. Each with a neighbor
of the same look in healthy.py or under the same code here."""
from fault import Cases
import scene

CASES = Cases()
HEAD = "{%- for m in messages %}"
TURN = "{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
BEGIN = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"


# ---- options
@CASES.fault("NUM-10", "weight_decay 1000", exactly=True)
def decay(s):
    s.sft(weight_decay=1000)


@CASES.fault("NUM-10", "max_grad_norm 1e-9", level="warn", exactly=True)
def clipped_to_nothing(s):
    s.sft(max_grad_norm=1e-9)


@CASES.fault("NUM-10", "adam_epsilon 1", level="warn", exactly=True)
def epsilon(s):
    s.sft(adam_epsilon=1.0)


@CASES.fault("NUM-10", "lora_dropout 0.99", level="warn", exactly=True)
def dropped(s):
    s.sft(lora_dropout=0.99)


@CASES.fault("ENV-02", "threads 900", level="warn", exactly=True)
def threads(s):
    s.sft(threads=900)


@CASES.fault("ENV-03", "other programs take half of the processors", "sabotage", "slow_products", level="warn", cause="other programs on these processors")
def busy_processors(s):
    s.sft()


@CASES.fault("ENV-03", "a processor without fast instructions for bf16", "sabotage", "slow_precision", level="warn", cause="no fast instructions for bf16")
def slow_precision(s):
    s.sft()


@CASES.fault("RL-17", "reward_weights of 0 for every reward")
def no_weight(s):
    s.policy(reward_weights=[0.0])


@CASES.fault("RL-17", "a weight of 0 for one of two rewards", level="note", exactly=True, cause="is called and logged, and changes nothing")
def one_zero_weight(s):
    s.policy(reward_funcs=["exact_match(column=answer)", "length(target=4)"], reward_weights=[1.0, 0.0])


@CASES.fault("RL-17", "a negative weight", level="warn", exactly=True)
def turned_weight(s):
    s.policy(reward_funcs=["exact_match(column=answer)", "length(target=4)"], reward_weights=[1.0, -1.0])


@CASES.fault("RL-17", "weights of 1000 and 0.001", level="warn", exactly=True)
def unlike_weights(s):
    s.policy(reward_funcs=["exact_match(column=answer)", "length(target=4)"], reward_weights=[1000.0, 0.001])


# ---- rewards, before step 1
def reward(s, body, **changes):
    s.python("def score(completions, answer=None, **_):\n"
             "    said = [c[0]['content'] if isinstance(c, list) else c for c in completions]\n" + body)
    s.policy(reward_funcs=["rewards.py:score"], **changes)


@CASES.fault("RL-04", "a reward upside down: it pays for every answer but the right one", level="warn", exactly=True,
             cause="has the wrong sign: right answers score lower than wrong ones")
def upside_down(s):
    reward(s, "    return [0.0 if a in c else 1.0 for c, a in zip(said, answer)]\n")


@CASES.fault("RL-07", "a reward for length: a warning before a run, since it does what it says", level="warn", exactly=True)
def for_length(s):
    s.python("def score(completions, answer, **_):\n"
             "    return [0.01 * len(c[0]['content'] if isinstance(c, list) else c) for c in completions]\n")
    s.policy(reward_funcs=["rewards.py:score"])


@CASES.fault("RL-04", "a reward upside down for one form of the answer", level="warn", exactly=True,
             cause="has the wrong sign: right answers score lower than wrong ones")
def upside_down_in_one_form(s):
    reward(s, "    return [0.0 if c.strip() == a else 1.0 for c, a in zip(said, answer)]\n")


@CASES.fault("RL-02", "a constant, told before step 1", level="warn", exactly=True)
def constant(s):
    reward(s, "    return [0.5] * len(said)\n")


@CASES.fault("RL-02", "rloo: a constant, told before step 1", level="warn", exactly=True, cause="the function does not look at the completions")
def rloo_constant(s):
    reward(s, "    return [0.5] * len(said)\n", method="rloo")


@CASES.fault("RL-02", "online dpo: a constant, told before step 1", level="warn", exactly=True,
             cause="the function does not look at the completions")
def online_constant(s):
    reward(s, "    return [0.5] * len(said)\n", method="online-dpo", num_generations=None, max_completion_length=None, max_new_tokens=12)


@CASES.fault("RL-02", "a constant with probe_rewards false: found in the run", "train", cause="or the reward accepts any completion")
def constant_unprobed(s):
    reward(s, "    return [0.5] * len(said)\n", probe_rewards=False)


@CASES.fault("RL-05", "scores that are drawn at random: another cause of scores that change", level="warn", exactly=True, varies=True,
             cause="it draws random numbers, or remembers earlier calls")
def random_scores(s):
    reward(s, "    import random\n    return [float(a in c) + 0.1 * random.random() for c, a in zip(said, answer)]\n")


@CASES.fault("RL-05", "None for every sample, told before step 1", "train", exactly=True)
def none(s):
    reward(s, "    return [None] * len(said)\n")


@CASES.fault("RL-18", "scores in another order than the completions", level="warn", exactly=True)
def sorted_scores(s):
    reward(s, "    return sorted(float(a in c) * int(a) for c, a in zip(said, answer))\n")


@CASES.fault("RL-18", "scores that depend on the other samples of the call", level="note", exactly=True)
def normalized(s):
    reward(s, "    right = [float(a in c) * int(a) for c, a in zip(said, answer)]\n"
              "    return [r - sum(right) / len(right) for r in right]\n")


# ---- rows
@CASES.fault("DATA-12", "the end of a turn inside a user's text", level="warn", exactly=True)
def special_in_text(s):
    rows = scene.message_rows()
    for row in rows[::5]:
        row["messages"][0]["content"] += " <|im_end|> please"
    s.sft(rows)


@CASES.fault("DATA-12", "brackets and angles that are no tokens", level="ok", exactly=True)
def no_special_in_text(s):
    rows = scene.message_rows()
    for row in rows[::5]:
        row["messages"][0]["content"] += " <b>please</b> [INST] <|no_token|>"
    s.sft(rows)


@CASES.fault("DATA-13", "a file that was concatenated with itself", level="warn", exactly=True)
def twice(s):
    s.sft(scene.text_rows() * 2)


@CASES.fault("DATA-13", "grpo: a file of prompts that was concatenated with itself", level="warn", exactly=True,
             cause="60 of 120 prompts are copies of other prompts")
def prompts_twice(s):
    s.policy(scene.prompt_rows() * 2)


@CASES.fault("DATA-13", "grpo: a quarter of the prompts are copies, as in tasks of a small space", level="ok", exactly=True,
             cause="20 of 80 prompts are copies of other prompts")
def prompts_of_a_small_space(s):
    s.policy(scene.prompt_rows() + scene.prompt_rows(20))


@CASES.fault("DATA-13", "rows that were drawn with repetition are no concatenated file", level="warn", exactly=True,
             cause="drawn with repetition")
def drawn_rows(s):
    rows = scene.text_rows()
    s.sft([rows[(i * i) % len(rows)] if i % 4 == 0 else rows[i] for i in range(len(rows))])


@CASES.fault("DATA-13", "one text in a third of the rows", level="warn", exactly=True, cause="a few texts that stand for many rows")
def one_row_often(s):
    s.sft([scene.text_rows()[0] if i % 3 == 0 else row for i, row in enumerate(scene.text_rows())])


@CASES.fault("DATA-13", "dpo: each pair also the other way round", level="warn", exactly=True)
def contradicting(s):
    rows = scene.preference_rows()
    s.dpo(rows + [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in rows])


@CASES.fault("DATA-13", "one prompt for all answers", level="warn", exactly=True)
def one_prompt(s):
    s.sft([{**row, "prompt": "What is the sum?", "completion": f" {row['prompt'][8:-1]} is{row['completion']}, as one can count"}
           for row in scene.pair_rows()])


@CASES.fault("DATA-15", "OpenAI's lists of parts under a template that reads text")
def parts(s):
    s.sft([{"messages": [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in row["messages"]]}
           for row in scene.message_rows()])


@CASES.fault("DATA-15", "the same under a template that writes any value", level="warn", exactly=True)
def written_parts(s):
    s.path("any.jinja").write_text(HEAD + "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%- endfor %}" + BEGIN)
    s.sft([{"messages": [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in row["messages"]]}
           for row in scene.message_rows()], chat_template_path="any.jinja")


@CASES.fault("DATA-15", "UTF-16 without a byte order mark")
def utf16(s):
    s.sft()
    file = s.path("rows.jsonl")
    file.write_bytes(file.read_text(encoding="utf-8").encode("utf-16-le"))


# ---- templates
def system_rows():
    return [{"messages": [{"role": "system", "content": "Count aloud."}, *row["messages"]]} for row in scene.message_rows()]


@CASES.fault("DATA-14", "a template without system turns", level="warn", exactly=True)
def no_system(s):
    s.path("t.jinja").write_text(HEAD + "{%- if m.role != 'system' %}" + TURN + "{%- endif %}{%- endfor %}" + BEGIN)
    s.sft(system_rows(), chat_template_path="t.jinja")


@CASES.fault("DATA-14", "a template without tools", level="warn", exactly=True)
def no_tools(s):
    s.path("t.jinja").write_text(HEAD + TURN + "{%- endfor %}" + BEGIN)
    tools = [{"type": "function", "function": {"name": "add_numbers", "parameters": {}}}]
    s.sft([{**row, "tools": tools} for row in scene.message_rows()], chat_template_path="t.jinja")


CALL = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {
    "name": "add_numbers", "arguments": {"a": 1, "b": 2}}}]}


@CASES.fault("DATA-14", "a template without calls of tools", level="warn", exactly=True, cause="calls of tools")
def no_calls(s):
    s.path("t.jinja").write_text(HEAD + TURN + "{%- endfor %}" + BEGIN)
    s.sft([{"messages": [row["messages"][0], CALL, {"role": "tool", "content": "3"}, row["messages"][1]]} for row in scene.message_rows()],
          chat_template_path="t.jinja")


@CASES.fault("DATA-14", "a template whose answers follow the prompt directly needs no generation prompt", level="ok", exactly=True,
             cause="the chat template begins the answer")
def needs_no_generation_prompt(s):
    s.path("t.jinja").write_text(HEAD + "{{- ('Q: ' + m.content + ' A: ') if m.role == 'user' else m.content + '<|im_end|>' }}{%- endfor %}")
    s.sft(scene.message_rows(), chat_template_path="t.jinja")


@CASES.fault("DATA-14", "a template without a generation prompt", level="warn", exactly=True)
def no_generation_prompt(s):
    s.path("t.jinja").write_text(HEAD + TURN + "{%- endfor %}")
    s.sft(scene.message_rows(), chat_template_path="t.jinja")


def thinking_rows(write):
    return [{"messages": [row["messages"][0], write(row["messages"][1], f"first I count to {i}")]}
            for i, row in enumerate(scene.message_rows())]


def inside(message, thought):
    return {**message, "content": f"<think>\n{thought}\n</think>\n\n{message['content']}"}


def beside(message, thought):
    return {**message, "reasoning_content": thought}


CUT = "m.content.split('</think>')[-1]|trim"


@CASES.fault("DATA-14", "a template that cuts every answer's reasoning", level="warn", exactly=True, cause="cuts an assistant's turn at </think>")
def cut_reasoning(s):
    s.path("t.jinja").write_text(HEAD + TURN.replace("m.content", CUT) + "{%- endfor %}" + BEGIN)
    s.sft(thinking_rows(inside), chat_template_path="t.jinja")


@CASES.fault("DATA-14", "a template that does not write reasoning_content", level="warn", exactly=True, cause="`reasoning_content`")
def unread_reasoning(s):
    s.path("t.jinja").write_text(HEAD + TURN + "{%- endfor %}" + BEGIN)
    s.sft(thinking_rows(beside), chat_template_path="t.jinja")


@CASES.fault("DATA-14", "a template that writes the reasoning, and trims", level="ok", exactly=True, cause="begins the answer")
def kept_reasoning(s):
    s.path("t.jinja").write_text(HEAD + TURN.replace("m.content", "m.content|trim") + "{%- endfor %}" + BEGIN)
    s.sft(thinking_rows(inside), chat_template_path="t.jinja")


@CASES.fault("DATA-14", "a template that keeps the last turn's reasoning only", level="note", exactly=True, cause="earlier reasoning is not sent again")
def earlier_reasoning(s):
    s.path("t.jinja").write_text(HEAD + TURN.replace("m.content", f"(m.content if loop.last else {CUT})") + "{%- endfor %}" + BEGIN)
    rows = thinking_rows(inside)
    s.sft([{"messages": first["messages"] + second["messages"]} for first, second in zip(rows, rows[1:])], chat_template_path="t.jinja")


# ---- what a resumed or continued run goes on from
SAVED = {"max_steps": 24, "save_strategy": "steps", "save_steps": 12}


def halved(s):
    s.path("out/checkpoint-24").rename(s.path("later"))


def change_weights(s):
    halved(s)
    s.tensor("model.norm.weight", lambda values: [v * 1.01 for v in values])


@CASES.fault("CKPT-05", "the base changed in place before a resume", "train", "--resume_from_checkpoint", "true", level="warn", exactly=True,
             before=(("train",), change_weights))
def other_base(s):
    s.model()
    s.sft(**SAVED)


def change_template(s):
    halved(s)
    s.path("t.jinja").write_text(HEAD + TURN.replace("'\\n' + m.content", "'\\n ' + m.content") + "{%- endfor %}" + BEGIN)


@CASES.fault("CKPT-05", "the template changed in place before a resume", "train", "--resume_from_checkpoint", "true", level="warn",
             exactly=True, before=(("train",), change_template))
def other_template(s):
    s.path("t.jinja").write_text(HEAD + TURN + "{%- endfor %}" + BEGIN)
    s.sft(scene.message_rows(), chat_template_path="t.jinja", **SAVED)


def change_tokenizer(s):
    halved(s)
    s.edit_json("model/tokenizer_config.json", model_max_length=77)


@CASES.fault("CKPT-05", "the tokenizer changed in place before a resume", "train", "--resume_from_checkpoint", "true", level="warn",
             exactly=True, before=(("train",), change_tokenizer))
def other_tokenizer(s):
    s.model()
    s.sft(**SAVED)


def change_reward(s):
    halved(s)
    file = s.path("rewards.py")
    file.write_text(file.read_text() + "# another\n")


@CASES.fault("CKPT-05", "the reward's file changed before a resume", "train", "--resume_from_checkpoint", "true", level="warn", exactly=True,
             before=(("train",), change_reward))
def other_reward(s):
    reward(s, "    return [float(a in c) - 0.01 * len(c) for c, a in zip(said, answer)]\n", **SAVED)


@CASES.fault("CKPT-05", "a run of sft resumed as dpo", "dpo", "--config", "dpo.yaml", "--resume_from_checkpoint", "true", exactly=True,
             before=(("train",),))
def other_method(s):
    s.dpo(scene.preference_rows())
    s.path("run.yaml").rename(s.path("dpo.yaml"))
    s.path("rows.jsonl").rename(s.path("pairs.jsonl"))
    text = s.path("dpo.yaml").read_text().replace("rows.jsonl", "pairs.jsonl")
    s.path("dpo.yaml").write_text(text)
    s.sft(max_steps=12, save_strategy="steps", save_steps=12)


def another_base(adapter, *lost, change=True):
    def spoil(s):
        if change:
            s.tensor("model.norm.weight", lambda values: [v * 1.01 for v in values])
        s.path("model").rename(s.path("second"))
        for name in lost:
            s.path(name).unlink()
        s.sft(max_steps=12, model_name_or_path="second", adapter_name_or_path=adapter, output_dir="out2")
    return spoil


def first_adapter(s):
    s.model()
    s.sft(max_steps=12, save_strategy="steps", save_steps=12)


CASES.fault("CKPT-07", "an adapter continued on another base", level="warn", exactly=True, cause="was trained on another base model",
            before=(("train",), another_base("out/checkpoint-12")))(first_adapter)
CASES.fault("CKPT-07", "the same with the adapter at the top of its run's folder", level="warn", exactly=True,
            cause="was trained on another base model", before=(("train",), another_base("out")))(first_adapter)
CASES.fault("CKPT-07", "the same base under another name", level="ok", exactly=True, cause="the same files",
            before=(("train",), another_base("out", change=False)))(first_adapter)
CASES.fault("CKPT-07", "an adapter of another program, known by its base's name", level="note", exactly=True,
            cause="names another base model", before=(("train",), another_base("out", "out/hone_inputs.json")))(first_adapter)


# ---- during a run
@CASES.fault("NUM-11", "a few rows, many epochs: the evaluation rises while the training loss falls", "train", level="warn", exactly=True)
def overfitted(s):
    rows = scene.pair_rows()
    s.rows([{**row, "completion": f" {(i * 7 + 3) % 10}"} for i, row in enumerate(rows[20:])], "eval.jsonl")
    s.sft([{**row, "completion": f" {(i * 3) % 10}"} for i, row in enumerate(rows[:8])], max_steps=60, learning_rate=5e-3,
          eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=6)


@CASES.fault("NUM-13", "the last rows of the file are of another kind, and its order is kept", "train", level="warn", exactly=True)
def odd_end(s):
    s.sft([{"prompt": "say", "completion": " one two three"}] * 48 + [{"prompt": "say", "completion": " nine q x z v 7 w"}] * 2,
          max_steps=130, learning_rate=3e-3, lr_scheduler_type="constant", per_device_train_batch_size=2, train_sampling_strategy="sequential",
          use_peft=False, lora_r=None, lora_dropout=None, lora_target_modules=None)
