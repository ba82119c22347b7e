"""RL and PREF: rollouts, rewards, the policy."""
from fault import Cases
import scene

CASES = Cases()


@CASES.fault("PREF-01", "dpo: chosen and rejected are equal in every pair")
def equal_pairs(s):
    s.dpo([{**row, "rejected": row["chosen"]} for row in scene.preference_rows()])


@CASES.fault("PREF-01", "dpo: they are equal in a third of the pairs", level="warn")
def some_equal_pairs(s):
    s.dpo([{**row, "rejected": row["chosen"]} if i % 3 == 0 else row for i, row in enumerate(scene.preference_rows())])


@CASES.fault("DATA-14", "dpo: the chat template drops what makes the pairs differ", cause="the chat template drops")
def equal_by_template(s):
    s.model()
    s.edit_json("model/tokenizer_config.json", chat_template=(
        "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content.split('</think>')[-1] + '<|im_end|>\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"))
    say = lambda thought: [{"role": "assistant", "content": f"<think>{thought}</think>four"}]
    s.dpo([{"prompt": [{"role": "user", "content": f"{i} + 4?"}], "chosen": say(f"good {i}"), "rejected": say(f"bad {i}")}
           for i in range(60)])


@CASES.fault("PREF-02", "dpo: chosen answers ten times as long as rejected ones", level="note")
def longer_chosen(s):
    s.dpo([{**row, "chosen": row["chosen"] * 10} for row in scene.preference_rows()])


CASES.exclude("PREF-04", "dpo: a reference that trains with the policy")


@CASES.fault("PREF-03", "grpo with lora_dropout 0.1", level="warn")
def dropout(s):
    s.policy(lora_dropout=0.1)


@CASES.fault("PREF-03", "grpo with TRL's own default of lora_dropout", level="note", exactly=True, cause="TRL's default lora_dropout is 0.05")
def default_dropout(s):
    s.policy(lora_dropout=None)


@CASES.fault("RL-01", "loss_type grpo, beta 0: the loss is 0 and the gradient is not", "train", level="note", exactly=True)
def healthy_zero(s):
    s.policy(loss_type="grpo")


@CASES.fault("RL-02", "a reward that gives every completion the same", "train", level="warn")
def dead_groups(s):
    s.python("def same(completions, **_):\n    return [0.5] * len(completions)\n")
    s.policy(reward_funcs=["rewards.py:same"])


@CASES.fault("RL-02", "temperature 0.01: the completions of a group are one", "doctor", "--deep", level="warn")
def one_completion(s):
    s.policy(temperature=0.01)


@CASES.fault("RL-03", "max_completion_length 1 below every answer", level="warn")
def cap_below_the_answers(s):
    s.policy(max_completion_length=1)


@CASES.fault("RL-03", "the same, without an examination", "train", "--skip_doctor", level="warn")
def cap_in_the_run(s):
    s.policy(max_completion_length=1)


@CASES.fault("RL-04", "think_format_reward, and a template that opens <think> in the prompt", level="warn")
def tag_in_the_prompt(s):
    s.model()
    s.edit_json("model/tokenizer_config.json", chat_template=(
        "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}"))
    s.policy(reward_funcs=["think_format_reward"])


@CASES.fault("RL-04", "a regex whose dot does not match a line break", level="warn", exactly=True)
def parser_never_matches(s):
    s.policy([{**row, "solution": row["answer"]} for row in scene.prompt_rows()],
             reward_funcs=['regex(pattern="^<think>.*</think>")'])


@CASES.fault("RL-04", "a reward that never scores", "train", "--skip_doctor", level="warn")
def never_scores(s):
    s.python("def strict(completions, **_):\n    return [1.0 if '<answer>' in str(c) else 0.0 for c in completions]\n")
    s.policy(reward_funcs=["rewards.py:strict"])


@CASES.fault("RL-05", "a reward that returns NaN", "doctor", "--deep")
def reward_nan(s):
    s.python("def bad(completions, **_):\n    return [float('nan')] * len(completions)\n")
    s.policy(reward_funcs=["rewards.py:bad"])


@CASES.fault("RL-05", "a reward of infinity", "train")
def reward_infinite(s):
    s.python("def bad(completions, **_):\n    return [float('inf')] * len(completions)\n")
    s.policy(reward_funcs=["rewards.py:bad"])


@CASES.fault("RL-05", "a reward that returns one number too few", "train")
def reward_short(s):
    s.python("def bad(completions, **_):\n    return [0.0] * (len(completions) - 1)\n")
    s.policy(reward_funcs=["rewards.py:bad"])


@CASES.fault("RL-05", "a reward that needs a column which the rows lack")
def reward_column(s):
    s.policy(reward_funcs=["exact_match(column=solution)"])


@CASES.fault("RL-06", "a plain language model as reward: it has no score head")
def random_head(s):
    s.model("reward")
    s.policy(reward_funcs=["reward"])


@CASES.fault("RL-07", "a reward for length: junk beats the right answer", "doctor", "--deep", level="warn", exactly=True)
def hackable(s):
    s.python("def longer(completions, answer, **_):\n"
             "    return [0.1 * len(c[0]['content'] if isinstance(c, list) else c) for c in completions]\n")
    s.policy(reward_funcs=["rewards.py:longer"])


@CASES.fault("RL-07", "the form is learned, and the answers stand", "train", "--skip_doctor", level="warn", cause="is at its ceiling")
def saturated(s):
    s.python("CALLS = []\n"
             "def form(completions, **_):\n"
             "    CALLS.append(1)\n"
             "    return [1.0 if len(CALLS) > 3 or n % 2 else 0.0 for n, _ in enumerate(completions)]\n"
             "def correct(completions, **_):\n"
             "    return [1.0 if n % 8 == len(CALLS) % 3 else 0.0 for n, _ in enumerate(completions)]\n")
    s.policy(reward_funcs=["rewards.py:form", "rewards.py:correct"], max_steps=30)


@CASES.fault("RL-08", "learning_rate 0.3: the policy collapses", "train", "--skip_doctor", level="warn")
def collapse(s):
    s.policy(learning_rate=0.3, reward_funcs=["length(target=4)"], max_steps=40)


@CASES.fault("RL-19", "a template without a generation prompt: each completion begins with the assistant's tag", "train",
             "--skip_doctor", level="warn", cause="begin with the same text")
def same_opening(s):
    s.model()
    s.edit_json("model/tokenizer_config.json", chat_template=(
        "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"))
    s.python("def longer(completions, **_):\n"
             "    return [min(len(c[0]['content']), 14) / 14 for c in completions]\n")
    s.policy(reward_funcs=["rewards.py:longer"], beta=0.05, learning_rate=1e-3, per_device_train_batch_size=16,
             num_generations=8, max_completion_length=24, max_steps=30)


CASES.exclude("RL-09", "advantages of one prompt given to another")


@CASES.fault("RL-10", "a sampler whose log-probabilities are off by 0.4", "sabotage", "sampler_off", level="warn")
def sampler_off(s):
    s.policy(bf16=False)  # whose bound is the same on every processor


@CASES.fault("RL-11", "a sampler that does not see the adapter", "sabotage", "sampler_of_the_base")
def sampler_of_the_base(s):
    s.policy(bf16=False)  # whose bound is the same on every processor


@CASES.fault("RL-12", "a sampler that keeps the weights from before the update", "sabotage", "sampler_of_old_weights")
def sampler_of_old_weights(s):
    s.policy(bf16=False)  # whose bound is the same on every processor


@CASES.fault("RL-13", "mask_truncated_completions with a loss that counts cut completions in its denominator", level="note")
def denominator(s):
    s.policy(mask_truncated_completions=True, max_completion_length=12, loss_type="dr_grpo")


CASES.exclude("RL-14", "generation without keys and values")
CASES.exclude("RL-15", "padding between prompt and completion")


@CASES.fault("RL-16", "an option that nobody reads: max_completion_lenght")
def unread_option(s):
    s.policy(max_completion_lenght=64)
