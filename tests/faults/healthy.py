"""Runs without a fault, of every method and form of data that exists: the doctor must let them pass."""
from fault import Cases
import scene
import staging

CASES = Cases()


@CASES.healthy("sft: text")
def text(s):
    s.sft()


@CASES.healthy("sft: text, qwen2", family="qwen2")
def text_qwen2(s):
    s.sft()


@CASES.healthy("sft: conversations")
def messages(s):
    s.sft(scene.message_rows())


@CASES.healthy("sft: conversations, assistant_only_loss")
def assistant_only(s):
    s.sft(scene.message_rows(), assistant_only_loss=True)


@CASES.healthy("sft: reasoning in the answers, under a template that writes it")
def reasoning(s):
    s.sft([{"messages": [row["messages"][0], {"role": "assistant", "content": f"<think>\n{i}, then\n</think>\n\n{row['messages'][1]['content']}"}]}
           for i, row in enumerate(scene.message_rows())])


@CASES.healthy("sft: prompt and completion")
def pairs(s):
    s.sft(scene.pair_rows())


@CASES.healthy("sft: packed")
def packed(s):
    s.sft(packing=True, max_length=64, num_train_epochs=8, max_steps=24)


@CASES.healthy("sft: packed conversations with evaluation", family="qwen2")
def packed_messages(s):
    s.rows(scene.message_rows(72)[60:], "eval.jsonl")
    s.sft(scene.message_rows(), packing=True, max_length=96, eval_dataset="eval.jsonl", eval_strategy="steps", eval_steps=12)


@CASES.healthy("sft: fp32, plain layers")
def plain(s):
    s.sft(bf16=False, layer_form="plain")


@CASES.healthy("sft: bf16 weights, gradient checkpointing, accumulation, dropout")
def bfloat16(s):
    s.sft(dtype="bfloat16", gradient_checkpointing=True, gradient_accumulation_steps=2, lora_dropout=0.05,
          per_device_train_batch_size=2)


@CASES.healthy("sft: rslora on attention and MLP by name, cosine with warm-up")
def rslora(s):
    s.sft(use_rslora=True, lora_target_modules=["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"],
          lr_scheduler_type="cosine", warmup_steps=0.1)


@CASES.healthy("sft: a GGUF base")
def gguf(s):
    staging.tiny_gguf(s.path("tiny.gguf"))
    s.sft(model_name_or_path="tiny.gguf")


@CASES.healthy("sft: an adapter continued",
               before=(("train", "--output_dir", "first"), lambda s: s.add("adapter_name_or_path: first")))
def continued(s):
    s.sft()


@CASES.healthy("sft: checkpoints, then examined in depth", deep=("--deep",))
def deep(s):
    s.sft(save_strategy="steps", save_steps=12)


@CASES.healthy("sft: a base in 4 bits, examined in depth", deep=("--deep",))
def four_bits(s):
    s.sft(load_in_4bit=True, use_bnb_nested_quant=True)


@CASES.healthy("sft: a base in 8 bits, plain layers, qwen2", family="qwen2")
def eight_bits(s):
    s.sft(load_in_8bit=True, layer_form="plain")


@CASES.healthy("grpo: a base in 4 bits, bf16 weights")
def grpo_four_bits(s):
    s.policy(load_in_4bit=True, dtype="bfloat16")


@CASES.healthy("grpo: exact answers")
def grpo(s):
    s.policy()


@CASES.healthy("grpo: qwen2, two rewards, KL", family="qwen2")
def grpo_two(s):
    s.policy(reward_funcs=["exact_match(column=answer)", 'regex(pattern="^[0-9]+$")'], reward_weights=[1.0, 0.5], beta=0.05)


@CASES.healthy("grpo: text prompts, a reward in Python, loss_type grpo")
def grpo_python(s):
    s.python("def near(completions, answer, **_):\n"
             "    def score(found, wanted):\n"
             "        found = found.strip()\n"
             "        return 1 - min(9, abs(int(found) - int(wanted))) / 10 if found.isdigit() and len(found) < 5 else 0.0\n"
             "    return [score(c, a) for c, a in zip(completions, answer)]\n")
    rows = [{"prompt": f"What is {a} + {b}?", "answer": str(a + b)} for a, b in scene.sums(60)]
    s.policy(rows, reward_funcs=["rewards.py:near"], loss_type="grpo", temperature=1.2)


@CASES.healthy("grpo: off-policy, two iterations of four steps")
def grpo_off(s):
    s.policy(num_iterations=2, steps_per_generation=4)


@CASES.healthy("grpo: gmpo, two iterations of two steps, KL")
def gmpo(s):
    s.policy(loss_type="gmpo", num_iterations=2, steps_per_generation=2, beta=0.02)


@CASES.healthy("grpo: dr_grpo, sequence importance, no scaling, evaluation")
def grpo_variants(s):
    s.rows(scene.prompt_rows(68)[60:], "eval.jsonl")
    s.policy(loss_type="dr_grpo", importance_sampling_level="sequence", scale_rewards="none", eval_dataset="eval.jsonl",
             eval_strategy="steps", eval_steps=12, num_generations_eval=2, per_device_eval_batch_size=8)


@CASES.healthy("rloo: exact answers")
def rloo(s):
    s.policy(method="rloo")


@CASES.healthy("rloo: normalized advantages, accumulation", family="qwen2")
def rloo_normalised(s):
    s.policy(method="rloo", normalize_advantages=True, gradient_accumulation_steps=2, beta=0.02)


@CASES.healthy("dpo: right answers against wrong ones")
def dpo(s):
    s.dpo()


@CASES.healthy("dpo: conversations, ipo, precomputed reference, accumulation", family="qwen2")
def dpo_messages(s):
    rows = [{"prompt": [{"role": "user", "content": row["prompt"]}], "chosen": [{"role": "assistant", "content": row["chosen"].strip()}],
             "rejected": [{"role": "assistant", "content": row["rejected"].strip()}]} for row in scene.preference_rows()]
    s.dpo(rows, loss_type="ipo", precompute_ref_log_probs=True, gradient_accumulation_steps=2)


@CASES.healthy("cpo: SimPO's recipe, conversations", family="qwen2")
def cpo(s):
    # the prompt beside conversations that begin with it, as UltraFeedback has it
    def turns(row, side):
        return [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row[side].strip()}]
    rows = [{**row, "chosen": turns(row, "chosen"), "rejected": turns(row, "rejected")} for row in scene.preference_rows()]
    s.dpo(rows, method="cpo", gamma_beta_ratio=0.3, beta=2.0)


@CASES.healthy("orpo: right answers against wrong ones")
def orpo(s):
    s.dpo(method="orpo")
