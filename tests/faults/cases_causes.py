"""One symptom, several causes: each case asserts the cause that is named, and its neighbors have the same code and another.

Zero gradients, a high first loss, losses that are not finite, truncation; and reports of other tools (unsloth-zoo#1023,
unsloth#9331, trl#6789, transformers#48718).
"""
import json

from fault import Cases
import scene
import staging

CASES = Cases()
LAYER = "model.layers.0."
HIDDEN = 64  # of the fixture's models


def zeros(s, *names):
    for name in names:
        s.tensor(name, lambda values: [0.0] * len(values))


# ---- GRAD-01, GRAD-02: a gradient of exactly 0
@CASES.fault("GRAD-01", "the final norm of the base is all 0", cause="the final norm of the base is all 0")
def zero_final_norm(s):
    zeros(s, "model.norm.weight")
    s.sft()


def empty_adapter(part):
    def spoil(s):
        file = s.path("first/adapter_model.safetensors")
        header, body = staging.read_safetensors(file)
        body = bytearray(body)
        for name, entry in header.items():
            if name != "__metadata__" and part in name:
                begin, end = entry["data_offsets"]
                body[begin:end] = bytes(end - begin)
        staging.write_safetensors(file, header, bytes(body))
        s.add("adapter_name_or_path: first")
    return spoil


def first_run(part):
    return (("train", "--output_dir", "first", "--max_steps", "3", "--skip_doctor"), empty_adapter(part))


@CASES.fault("GRAD-01", "an adapter to be continued whose A and B are all 0", before=first_run("lora_"),
             cause="are both 0 in the adapter to be continued")
def all_empty(s):
    s.sft()


@CASES.fault("GRAD-02", "the same in one module of the adapter", level="warn", exactly=True,
             before=first_run("layers.0.self_attn.q_proj"), cause="A and B of model.layers.0.self_attn.q_proj are both 0")
def one_empty(s):
    s.sft()


@CASES.fault("GRAD-07", "an adapter to be continued whose A alone is 0 learns", level="ok", exactly=True, before=first_run("lora_A"))
def empty_a(s):
    s.sft()


@CASES.fault("GRAD-02", "the norm before attention in one layer is all 0", level="warn", exactly=True,
             cause="the norm before model.layers.0.self_attn.q_proj of the base is all 0: attention gets no input")
def zero_input_norm(s):
    zeros(s, LAYER + "input_layernorm.weight")
    s.sft()


@CASES.fault("GRAD-02", "the norm before the MLP in one layer is all 0", level="warn", exactly=True,
             cause="the norm before model.layers.0.mlp.gate_proj of the base is all 0: the MLP gets no input")
def zero_mlp_norm(s):
    zeros(s, LAYER + "post_attention_layernorm.weight")
    s.sft()


@CASES.fault("GRAD-02", "o_proj is all 0 and has no adapter", level="warn", exactly=True,
             cause="model.layers.0.self_attn.o_proj of the base is all 0 and has no adapter")
def zero_o_proj(s):
    zeros(s, LAYER + "self_attn.o_proj.weight")
    s.sft(lora_target_modules=["q_proj", "k_proj", "v_proj"])


@CASES.fault("GRAD-02", "q_proj is all 0 and has no adapter", level="warn", exactly=True,
             cause="model.layers.0.self_attn.q_proj of the base is all 0 and has no adapter")
def zero_q_proj(s):
    zeros(s, LAYER + "self_attn.q_proj.weight")
    s.sft(lora_target_modules=["k_proj", "v_proj"])


@CASES.fault("GRAD-02", "q_proj is all 0 and has an adapter: its gradients come later", level="note", exactly=True,
             cause="all 0 in the base: model.layers.0.self_attn.q_proj")
def zero_adapted(s):
    zeros(s, LAYER + "self_attn.q_proj.weight")
    s.sft()


@CASES.fault("GRAD-02", "dpo with beta 1e6: the loss is saturated after one step", level="warn", exactly=True,
             cause="the loss is saturated after one step")
def saturated(s):
    s.dpo([scene.preference_rows()[3]] * 60, beta=1e6, learning_rate=1e-4)


@CASES.fault("GRAD-01", "the same rows with beta 0.1", level="ok", exactly=True)
def not_saturated(s):
    s.dpo([scene.preference_rows()[3]] * 60, beta=0.1, learning_rate=1e-4)


# ---- RL-02, RL-04: no gradient, by the rewards
@CASES.fault("RL-04", "grpo: the weights of all rewards are 0", "train", "--skip_doctor", level="warn",
             cause="every weight of reward_weights is 0")
def no_weights(s):
    s.policy(reward_weights=[0.0])


@CASES.fault("RL-04", "grpo: weights of 1, and a reward that never matches", "train", "--skip_doctor", level="warn",
             cause="the reward's parser never matches")
def never_matches(s):
    s.python("def strict(completions, **_):\n    return [1.0 if '<answer>' in str(c) else 0.0 for c in completions]\n")
    s.policy(reward_funcs=["rewards.py:strict"], reward_weights=[1.0])


# ---- NUM-02: a high first loss
@CASES.fault("NUM-02", "a base of random weights", level="note", exactly=True, cause="the base is untrained")
def untrained(s):
    s.sft(model_name_or_path=str(scene.SOURCE / "tests" / "fixtures" / "parity" / "tiny_llama"))


@CASES.fault("NUM-02", "completions that are empty", level="warn", exactly=True, cause="completions are empty")
def empty_completions(s):
    s.sft([{"prompt": f"What is {a} +", "completion": ""} for a, _ in scene.sums(60)])


@CASES.fault("NUM-02", "completions that are a bare end of turn", level="warn", exactly=True, cause="completions are empty")
def bare_ends(s):
    s.sft([{"prompt": f"What is {a} +", "completion": "<|im_end|>"} for a, _ in scene.sums(60)])


@CASES.fault("NUM-02", "plain rows of a base that knows them as turns", level="warn", exactly=True,
             cause="this base knows them as turns of its chat template")
def plain_rows_of_turns(s):
    """The fixture knows `What is 3 + 4? 7`: here that is what the template makes of a question and its answer."""
    s.model()
    s.edit_json("model/tokenizer_config.json", chat_template=(
        "<|bos|>{%- for m in messages %}{%- if m.role == 'user' %}{{- 'What is ' + m.content + '?' }}{%- else %}"
        "{{- ' ' + m.content + '<|im_end|>' }}{%- endif %}{%- endfor %}"))
    s.sft([{"prompt": f"{a} + {b}", "completion": f"{a + b}"} for a, b in scene.sums(60)])


@CASES.fault("NUM-02", "a tokenizer whose tokens have other ids", level="warn", exactly=True,
             cause="survive decoding and encoding")
def permuted_tokens(s):
    tokens = json.loads((s.model() / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = tokens["model"]["vocab"]
    words = sorted((word for word, at in vocab.items() if at > 10), key=vocab.get)
    ids = [vocab[word] for word in words]
    vocab.update(zip(words, reversed(ids)))
    (s.path("model") / "tokenizer.json").write_text(json.dumps(tokens), encoding="utf-8")
    s.sft()


@CASES.fault("NUM-02", "emoji, which the base has hardly seen", level="note", exactly=True, cause="text that this base has hardly seen")
def emoji(s):
    s.sft([{"text": "\U0001F98A\U0001F427\U0001F33B\U0001F680" * 4} for _ in range(60)])


# ---- NUM-02 in the run: what is not finite
@CASES.fault("NUM-02", "a rate that NUM-08 warned of, and then NaN", "train", cause="of which NUM-08 had warned")
def diverged(s):
    s.sft(learning_rate=100.0, lr_scheduler_type="constant")


@CASES.fault("NUM-02", "a token of one row that overflows, without a warning of the rate", "train", "--skip_doctor",
             cause="suspected: that sample (its length, or a token that the model rarely saw)")
def one_sample(s):
    """One direction of the residual is that token's alone, and the first MLP multiplies it by 3e38."""
    token = json.loads((s.model() / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]["Z"]
    own = HIDDEN - 1
    s.tensor("model.embed_tokens.weight",
             lambda v: [(1000.0 if i // HIDDEN == token else 0.0) if i % HIDDEN == own else x for i, x in enumerate(v)])
    for layer in ("model.layers.0.", "model.layers.1."):
        for part, wide in (("self_attn.o_proj", HIDDEN), ("mlp.down_proj", 96)):  # nothing else writes there
            s.tensor(f"{layer}{part}.weight", lambda v, wide=wide: [0.0 if i // wide == own else x for i, x in enumerate(v)])
    s.tensor(LAYER + "mlp.up_proj.weight", lambda v: [3e38 if i % HIDDEN == own else x for i, x in enumerate(v)])
    rows = scene.text_rows()
    rows[7]["text"] += " Z"
    s.sft(rows, lora_target_modules=["q_proj", "v_proj"])


# ---- DATA-02: truncation
@CASES.fault("DATA-02", "a quarter of the targets lost to max_length", level="warn", exactly=True, cause="of the targets lost")
def quarter_lost(s):
    rows = scene.message_rows(60)
    for row in rows[::6]:
        row["messages"][1]["content"] = " ".join(["5"] * 60)
    s.sft(rows, max_length=64, assistant_only_loss=True)


@CASES.fault("DATA-02", "nearly all of the targets lost to max_length", cause="of the targets lost")
def nearly_all_lost(s):
    rows = scene.message_rows(60)
    for row in rows:
        row["messages"][1]["content"] = " ".join(["5"] * 400)
    s.sft(rows, max_length=40, assistant_only_loss=True)


@CASES.fault("DATA-02", "rows longer than the model's positions", level="warn", exactly=True, cause="1 of 60 rows is cut at 512 tokens")
def beyond_positions(s):
    rows = scene.text_rows(60)
    rows[3] = {"text": " ".join(["What is 3 + 4? 7"] * 200)}
    s.sft(rows, max_length=512)


# ---- reports of other tools
@CASES.fault("NUM-05", "unsloth-zoo#1023: the scale of the loss under accumulation", level="ok", cause="divided once, by the step's tokens")
def accumulation_scale(s):
    s.sft(gradient_accumulation_steps=4, per_device_train_batch_size=2)


@CASES.fault("CKPT-02", "unsloth#9331: a trained head, merged", "doctor", "--deep", level="ok")
def trained_head(s):
    s.sft(lora_modules_to_save=["lm_head"])


@CASES.fault("RL-10", "trl#6789: top_p 0.8, with log-probabilities of all tokens", level="ok", cause="equal the trainer's")
def truncated_sampling(s):
    s.policy(top_p=0.8, top_k=20, bf16=False)


@CASES.fault("", "transformers#48718: a hybrid family without its kernels is refused, not slow")
def hybrid_family(s):
    s.model()
    s.edit_json("model/config.json", model_type="qwen3_next", architectures=["Qwen3NextForCausalLM"])
    s.sft()
