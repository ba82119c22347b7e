"""Rows that train, and do not teach what they are to teach: DATA-16 and PREF-05. Their healthy neighbors are in healthy_users.py."""
from fault import Cases
import scene

CASES = Cases()
PREFERENCE = {"learning_rate": 1e-5}


def chat(write):
    return [{"messages": write(row["messages"])} for row in scene.message_rows()]


# ---- another model's control tokens
@CASES.fault("DATA-16", "texts in another model's chat template", level="warn", exactly=True, cause="hold <|start_header_id|>, which is no token of this model")
def foreign_texts(s):
    s.sft([{"text": f"<|start_header_id|>user<|end_header_id|>\n\nWhat is {a} + {b}?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n{a + b}<|eot_id|>"}
           for a, b in scene.sums(60)])


@CASES.fault("DATA-16", "prompts with [INST] under a template that does not write it", level="warn", exactly=True, cause="hold [INST]")
def instruction_marks(s):
    s.sft([{"prompt": f"[INST] What is {a} + {b}? [/INST]", "completion": f" {a + b}"} for a, b in scene.sums(60)])


@CASES.fault("DATA-16", "chat_template_path with another model's template", level="warn", exactly=True, cause="the chat template writes <start_of_turn>")
def foreign_template(s):
    s.path("t.jinja").write_text("{%- for m in messages %}{{- '<start_of_turn>' + m.role + '\\n' + m.content + '<end_of_turn>\\n' }}{%- endfor %}"
                                 "{%- if add_generation_prompt %}{{- '<start_of_turn>assistant\\n' }}{%- endif %}")
    s.sft(scene.message_rows(), chat_template_path="t.jinja")


# ---- roles and columns
@CASES.fault("DATA-16", "user and assistant the wrong way round", level="warn", exactly=True, cause="the roles are the wrong way round")
def turned_roles(s):
    s.sft(chat(lambda turns: [{"role": "assistant", "content": turns[0]["content"]}, {"role": "user", "content": turns[1]["content"]}]))


@CASES.fault("DATA-16", "question and answer in the user's turn", level="warn", exactly=True, cause="have no assistant's turn")
def one_turn(s):
    s.sft(chat(lambda turns: [{"role": "user", "content": turns[0]["content"] + " " + turns[1]["content"]}]))


@CASES.fault("DATA-16", "conversations that end with a user's turn", level="warn", exactly=True, cause="which has no answer")
def unanswered(s):
    s.sft(chat(lambda turns: [*turns, {"role": "user", "content": "Thank you"}]))


@CASES.fault("DATA-16", "prompt and completion the wrong way round", level="warn", exactly=True, cause="have a question as their completion")
def turned_sides(s):
    s.sft([{"prompt": row["completion"].strip(), "completion": " " + row["prompt"]} for row in scene.pair_rows()])


@CASES.fault("DATA-16", "answers in a column that is not read", level="warn", exactly=True, cause="the column answer is not read")
def unread_answers(s):
    s.sft([{"text": row["prompt"], "answer": row["completion"]} for row in scene.pair_rows()])


@CASES.fault("DATA-16", "completions that begin with their prompt", level="warn", exactly=True, cause="begin with the whole prompt")
def prompt_twice(s):
    s.sft([{**row, "completion": row["prompt"] + row["completion"]} for row in scene.pair_rows()])


@CASES.fault("DATA-16", "dpo: both sides begin with the prompt", level="warn", exactly=True, cause="begin with the whole prompt")
def prompt_in_pairs(s):
    s.dpo([{**row, "chosen": row["prompt"] + row["chosen"], "rejected": row["prompt"] + row["rejected"]} for row in scene.preference_rows()], **PREFERENCE)


# ---- answers that are none, or end too soon
@CASES.fault("DATA-16", "every second completion is empty", level="warn", exactly=True, cause="have an empty answer")
def empty_half(s):
    s.sft([{**row, "completion": row["completion"] if i % 2 else ""} for i, row in enumerate(scene.pair_rows())])


@CASES.fault("DATA-16", "every tenth completion is the word nan", level="warn", exactly=True, cause="have `nan` as their answer")
def words_of_missing_values(s):
    s.sft([{**row, "completion": row["completion"] if i % 10 else "nan"} for i, row in enumerate(scene.pair_rows())])


@CASES.fault("DATA-16", "answers that the file cuts at 60 characters", level="warn", exactly=True, cause="a limit of 60 characters")
def cut_in_the_file(s):
    words = "I begin at the first number and go on from there, one step at a time, until both are counted"
    answers = [f" For {a} and {b}: {' '.join(words.split()[:3 + (7 * i) % 17])}: {a + b}." for i, (a, b) in enumerate(scene.sums(60))]
    s.sft([{**row, "completion": answer[:60]} for row, answer in zip(scene.pair_rows(), answers)])


# ---- characters
@CASES.fault("DATA-16", "letters that were encoded twice", level="warn", exactly=True, cause="encoded twice")
def twice_encoded(s):
    s.sft([{"text": f"Le café coûte {a} + {b} euros, n’est-ce pas ? {a + b}".encode().decode("latin-1")} for a, b in scene.sums(60)])


@CASES.fault("DATA-16", "line breaks that are written out", level="warn", exactly=True, cause="escaped twice")
def written_out_lines(s):
    s.sft([{"text": f"What is {a} + {b}?\\n{a + b}"} for a, b in scene.sums(60)])


@CASES.fault("DATA-09", "two tokens of turns that are copies of one row", level="warn", exactly=True, cause="the same embedding as another one")
def copied_tokens(s):
    s.tensor("model.embed_tokens.weight", lambda v: [v[i % 64 + 300 * 64] if 64 <= i < 3 * 64 else x for i, x in enumerate(v)])
    s.sft(scene.message_rows())


# ---- an evaluation that knows the training
@CASES.fault("DATA-11", "an evaluation of training rows with other spaces", level="warn", exactly=True, cause="in the same words")
def near_copies(s):
    s.rows([{"text": row["text"].replace(" ", "  ", 1).lower()} for row in scene.text_rows()[:12]], "eval.jsonl")
    s.sft(eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=12)


@CASES.fault("DATA-11", "dpo: other answers to training prompts as the evaluation", level="warn", exactly=True, cause="ask what a training row asks")
def known_prompts(s):
    s.rows([{**row, "chosen": row["chosen"] + "."} for row in scene.preference_rows()[:12]], "eval.jsonl")
    s.dpo(eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=12, **PREFERENCE)


# ---- pairs
@CASES.fault("DATA-16", "dpo: both sides are users' turns", level="warn", exactly=True, cause="is a turn of the user")
def users_turns(s):
    side = lambda text: [{"role": "user", "content": text.strip()}]  # noqa: E731
    s.dpo([{"prompt": side(row["prompt"]), "chosen": side(row["chosen"]), "rejected": side(row["rejected"])} for row in scene.preference_rows()],
          **PREFERENCE)


def swapped(rows):
    return [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in rows]


@CASES.fault("PREF-05", "dpo: chosen and rejected the wrong way round", level="warn", exactly=True, cause="would rather write the rejected completions")
def swapped_pairs(s):
    s.dpo(swapped(scene.preference_rows()), **PREFERENCE)


@CASES.fault("PREF-05", "orpo: chosen and rejected the wrong way round", level="warn", exactly=True, cause="would rather write the rejected completions")
def swapped_orpo(s):
    s.dpo(swapped(scene.preference_rows()), method="orpo", **PREFERENCE)


@CASES.fault("PREF-05", "kto: inverted labels", level="warn", exactly=True, cause="the labels are inverted")
def inverted(s):
    s.dpo([{"prompt": row["prompt"], "completion": row["chosen" if i % 2 else "rejected"], "label": not i % 2}
           for i, row in enumerate(scene.preference_rows())], method="kto", **PREFERENCE)


@CASES.fault("PREF-05", "reward: pairs against their own scores", level="warn", exactly=True, cause="rejected has the higher score")
def against_scores(s):
    s.dpo([{**row, "score_chosen": 1.0 + i % 3, "score_rejected": 5.0} for i, row in enumerate(scene.preference_rows())], method="reward", **PREFERENCE)


@CASES.fault("PREF-05", "dpo: the right answer is rejected", level="warn", exactly=True, cause="stands in rejected and not in chosen")
def right_answer_rejected(s):
    s.dpo(swapped([{**row, "answer": row["chosen"].strip()} for row in scene.preference_rows()]), **PREFERENCE)


@CASES.fault("PREF-05", "dpo: chosen refuses everything", level="warn", exactly=True, cause="chosen refuses in 60")
def refusals(s):
    s.dpo([{**row, "chosen": f" I'm sorry, but I cannot add {row['prompt'][8:13]}.", "rejected": row["chosen"]} for row in scene.preference_rows()], **PREFERENCE)


@CASES.fault("PREF-05", "dpo: every fourth chosen is empty", level="warn", exactly=True, cause="have an empty chosen completion")
def empty_chosen(s):
    s.dpo([{**row, "chosen": row["chosen"] if i % 4 else ""} for i, row in enumerate(scene.preference_rows())], **PREFERENCE)


@CASES.fault("PREF-05", "dpo: one rejected text for all", level="warn", exactly=True, cause="rejected is the same text")
def one_rejected(s):
    s.dpo([{**row, "rejected": " I do not know"} for row in scene.preference_rows()], **PREFERENCE)
