"""Runs of TRL's trainers that train every weight (use_peft false), on CPU in fp32, step by step: FIXTURES/trl_full/<case>.json,
and <case>.safetensors of the cases in KEPT. usage: record_trl_full.py [--only PREFIX] [--out FOLDER]

Models: tiny_llama (tied head); qwen2 (biases, tied), qwen3 (Q/K norm, a head of its own), llama3 (its rotation, a head of its own), made
here, in trl_full/<family>, with tiny_llama's tokenizer; for reward models rewards/tiny_reward, and trl_full/reward_<family>, the same
with a score head; SmolLM2 (models/smollm2-f32) in cases named smollm2_*. The reference of DPO, KTO and of methods that sample is TRL's
second copy. Completions of GRPO, RLOO and Online DPO are replayed, as those of record_trl_grpo.py and record_trl_online_dpo.py:
<case>.jsonl; without the reference's log-probabilities in cases named *_sync, whose reference moves. TRL's defects in Online DPO and the logits/* of CPO and ORPO are as there and in record_trl_cpo.py.

<case>.json: versions; method; model; data; options (what differs from TRL's defaults, in TRL's names); steps: one an optimizer step, as
logged, unrounded, under TRL's names; evals: as logged; unfrozen: the patterns of a Spectrum file, in cases named spectrum_*.
<case>.safetensors: grad.<name> of the first optimizer step before clipping, after.<name>, the weights after the last step; logits
[8, V], the trained model's of the tokens IDS (not of reward models). All but sft_* and spectrum_* leave
the first layer out, the embedding after the last step, and its gradient where the head has weights of its own."""
import json
import re
import tempfile

import record_trl_cpo as cpo
import record_trl_grpo as grpo
import record_trl_online_dpo as online
from record_tiny import LLAMA3_ROPE
from common import FIXTURES, SMOLLM2, attention_of, versions, write_json, write_tensors
from trl_training import case_options, logged, trained

import torch
from datasets import Dataset
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, LlamaConfig, PrinterCallback,
                          Qwen2Config, Qwen3Config)
from trl import (DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, KTOConfig, KTOTrainer, RewardConfig, RewardTrainer, RLOOConfig,
                 RLOOTrainer, SFTConfig, SFTTrainer)
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.online_dpo import OnlineDPOConfig
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

FOLDER = "trl_full"
LLAMA = FIXTURES / "tiny_llama"
QWEN2, QWEN3, LLAMA3 = (FIXTURES / FOLDER / family for family in ("qwen2", "qwen3", "llama3"))
REWARD = FIXTURES / "rewards" / "tiny_reward"
KEPT = ("sft_qwen2", "sft_qwen3", "sft_llama3", "dpo_qwen2", "reward", "grpo_kl", "spectrum_qwen3", "kto_qwen2",
        "cpo_qwen2", "orpo_llama3", "rloo_qwen2", "online_dpo_llama3")
# The others leave out the first layer and, where the head has weights of its own, the embedding: backward and AdamW are those of these.
WHOLE = ("sft", "spectrum")
TEXT, COMPLETION = FIXTURES / "sft/text.jsonl", FIXTURES / "sft/prompt_completion.jsonl"
PAIRS, UNPAIRED, SCORED = (FIXTURES / "trl_dpo/explicit.jsonl", FIXTURES / "trl_kto/rows.jsonl", FIXTURES / "trl_reward/explicit.jsonl")
CPO_PAIRS = FIXTURES / "trl_cpo/eval.jsonl"  # without a pair of equal sides, whose accuracy is a toss-up of rounding
TRAINERS = {"sft": (SFTConfig, SFTTrainer), "dpo": (DPOConfig, DPOTrainer), "kto": (KTOConfig, KTOTrainer),
            "reward": (RewardConfig, RewardTrainer), "grpo": (GRPOConfig, GRPOTrainer), "rloo": (RLOOConfig, RLOOTrainer),
            "cpo": (CPOConfig, cpo.with_own_logits(CPOTrainer)), "orpo": (ORPOConfig, cpo.with_own_logits(ORPOTrainer))}
# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding, and later steps differ.
SHARED = dict(bf16=False, per_device_train_batch_size=2, gradient_accumulation_steps=2, learning_rate=1e-3, adam_epsilon=1e-5,
              max_steps=10)
IDS = [1, 17, 201, 45, 45, 9, 260, 33]
SFT = dict(SHARED, max_length=64, lr_scheduler_type="cosine", warmup_steps=2)
FAMILIES = {"qwen2": QWEN2, "qwen3": QWEN3, "llama3": LLAMA3}
UNFROZEN = ["^model.embed_tokens.weight$", "model.layers.1.mlp.down_proj", "model.layers.1.self_attn.q_proj", "^lm_head.weight$",
            "model.layers.0.input_layernorm"]


def cases():
    """name -> (method, model, data, options)"""
    out = {f"sft_{family}": ("sft", model, TEXT, SFT) for family, model in (("llama", LLAMA), *FAMILIES.items())}
    out["sft_packed"] = ("sft", LLAMA, TEXT, dict(SFT, packing=True, max_length=128))
    out["sft_clipped"] = ("sft", QWEN3, COMPLETION, dict(SFT, max_grad_norm=0.05, weight_decay=0.1, gradient_accumulation_steps=3))
    out["sft_smoothed"] = ("sft", LLAMA, COMPLETION, dict(SFT, label_smoothing_factor=0.2, max_steps=4))
    out["sft_dft"] = ("sft", QWEN3, TEXT, dict(SFT, loss_type="dft", max_steps=4))
    out["sft_adafactor"] = ("sft", LLAMA, TEXT, dict(SFT, optim="adafactor", max_steps=4))
    out["sft_evaluated"] = ("sft", QWEN2, TEXT, dict(SFT, eval_strategy="steps", eval_steps=5, per_device_eval_batch_size=2))
    out["spectrum_qwen3"] = ("sft", QWEN3, TEXT, SFT)
    pairs = dict(SHARED, max_steps=4, per_device_train_batch_size=3)
    out["dpo"] = ("dpo", LLAMA, PAIRS, dict(pairs, beta=0.5))
    out["dpo_qwen3"] = ("dpo", QWEN3, PAIRS, dict(pairs, loss_type=["sigmoid", "sft"], beta=0.3))
    out["dpo_precomputed"] = ("dpo", LLAMA, PAIRS, dict(pairs, precompute_ref_log_probs=True, max_steps=-1, num_train_epochs=1))
    out["kto"] = ("kto", LLAMA, UNPAIRED, dict(pairs, beta=0.5))
    out["reward"] = ("reward", REWARD, SCORED, dict(pairs))
    sampled = dict(SHARED, adam_epsilon=1e-4, max_steps=4, per_device_train_batch_size=4, num_generations=4, max_completion_length=12)
    out["grpo"] = ("grpo", LLAMA, None, dict(sampled))
    out["grpo_kl"] = ("grpo", LLAMA, None, dict(sampled, beta=0.04, steps_per_generation=4, num_iterations=2, epsilon=0.05, max_steps=5))
    clipped = dict(max_grad_norm=0.05, weight_decay=0.1, lr_scheduler_type="cosine", warmup_steps=1)
    ten = dict(pairs, max_steps=10)
    for family, model in FAMILIES.items():  # ten steps of every method
        out[f"sft_packed_{family}"] = ("sft", model, TEXT, dict(SFT, packing=True, max_length=128, **clipped | {"warmup_steps": 2}))
        out[f"dpo_{family}" + ("_clipped" if family == "qwen3" else "")] = ("dpo", model, PAIRS, dict(ten, beta=0.5, **clipped))
        out[f"kto_{family}"] = ("kto", model, UNPAIRED, dict(ten, beta=0.5, **(clipped if family == "qwen3" else {})))
        out[f"cpo_{family}"] = ("cpo", model, CPO_PAIRS, dict(ten, beta=0.5, **(clipped if family == "llama3" else {})))
        out[f"orpo_{family}"] = ("orpo", model, CPO_PAIRS, dict(ten, beta=0.5, **(clipped if family == "qwen2" else {})))
        out[f"reward_{family}"] = ("reward", FIXTURES / FOLDER / f"reward_{family}", SCORED,
                                   dict(ten, **(clipped if family == "qwen2" else {})))
        long = dict(sampled, max_steps=10)
        out[f"grpo_{family}"] = ("grpo", model, None, dict(long, beta=0.04, **(clipped if family == "llama3" else {})))
        out[f"rloo_{family}"] = ("rloo", model, None, dict(long, steps_per_generation=2, **(clipped if family == "qwen3" else {})))
        out[f"online_dpo_{family}"] = ("online_dpo", model, None, dict(
            {**online.SHARED, "learning_rate": 1e-3, "max_steps": 10}, gradient_accumulation_steps=2,
            per_device_train_batch_size=2, **(clipped if family == "qwen2" else {})))
    # a reference that moves at steps 2, 4, ...
    moving = dict(sync_ref_model=True, ref_model_mixup_alpha=0.6, ref_model_sync_steps=2)
    out["dpo_sync"] = ("dpo", QWEN2, PAIRS, dict(pairs, max_steps=6, beta=0.5, learning_rate=5e-3, **moving))
    out["kto_sync"] = ("kto", LLAMA3, UNPAIRED, dict(pairs, max_steps=6, beta=0.5, learning_rate=5e-3, **moving))
    out["grpo_sync"] = ("grpo", QWEN3, None, dict(sampled, max_steps=6, beta=0.1, learning_rate=5e-3, **moving))
    for family in ("mistral", "smollm3", "granite", "olmo2", "gemma3", "phi3", "lfm2_bias", "phi3_short", "ministral3", "gemma2", "gemma", "olmo3", "qwen3_5", "gemma4", "exaone4"):
        out[f"sft_{family}"] = ("sft", FIXTURES / f"tiny_{family}", TEXT, dict(SFT, max_steps=4))
    for family, coef in (("qwen3_moe", 0.5), ("mixtral", None), ("olmoe", 0.5), ("granitemoe", 0.0), ("granite4", 0.0)):
        out[f"sft_{family}"] = ("sft", FIXTURES / f"tiny_{family}", TEXT, dict(SFT, max_steps=4, router_aux_loss_coef=coef))
    out["cpo"] = ("cpo", LLAMA, CPO_PAIRS, dict(ten, beta=0.5, loss_type="simpo"))
    out["orpo"] = ("orpo", LLAMA, CPO_PAIRS, dict(ten))
    out["rloo"] = ("rloo", LLAMA, None, dict(long, steps_per_generation=4, num_iterations=2, epsilon=0.15))
    out["online_dpo"] = ("online_dpo", LLAMA, None, dict({**online.SHARED, "learning_rate": 1e-3, "max_steps": 10}, loss_type="ipo"))
    out["smollm2_sft"] = ("sft", SMOLLM2, TEXT, dict(SFT, max_length=64, learning_rate=1e-5))
    real = dict(SHARED, learning_rate=1e-5, per_device_train_batch_size=1)
    out["smollm2_dpo"] = ("dpo", SMOLLM2, PAIRS, dict(real, beta=0.5))
    out["smollm2_kto"] = ("kto", SMOLLM2, UNPAIRED, dict(real, beta=0.5, per_device_train_batch_size=2, gradient_accumulation_steps=1))
    out["smollm2_cpo"] = ("cpo", SMOLLM2, CPO_PAIRS, dict(real, beta=0.5))
    out["smollm2_orpo"] = ("orpo", SMOLLM2, CPO_PAIRS, dict(real, beta=0.5))
    answers = dict(real, per_device_train_batch_size=2, num_generations=4, max_completion_length=8)
    out["smollm2_grpo"] = ("grpo", SMOLLM2, None, dict(answers, beta=0.04))
    out["smollm2_rloo"] = ("rloo", SMOLLM2, None, dict(answers))
    out["smollm2_online_dpo"] = ("online_dpo", SMOLLM2, None, dict(
        {**online.SHARED, "learning_rate": 1e-5, "max_steps": 10}, max_new_tokens=8, per_device_train_batch_size=1))
    return out


def make_models(out):
    """Tiny models of the families that tiny_llama's tokenizer has no row too many for."""
    shape = dict(vocab_size=384, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=256, rope_theta=10000.0, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    rope = dict(shape, rope_parameters=dict(LLAMA3_ROPE, rope_theta=5e5))
    del rope["rope_theta"]
    configs = {"qwen2": Qwen2Config(**shape, tie_word_embeddings=True),
               "qwen3": Qwen3Config(**shape, head_dim=16, tie_word_embeddings=False),
               "llama3": LlamaConfig(**rope, tie_word_embeddings=False)}
    for family, reward in [(family, reward) for reward in (False, True) for family in configs]:
        torch.manual_seed(11)
        config = configs[family]
        if reward:
            config.num_labels = 1
        model = (AutoModelForSequenceClassification if reward else AutoModelForCausalLM).from_config(config)
        with torch.no_grad():  # so that norms and biases matter
            for name, value in model.named_parameters():
                value.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.2)
        place = out / FOLDER / (f"reward_{family}" if reward else family)
        model.save_pretrained(str(place))
        AutoTokenizer.from_pretrained(str(LLAMA)).save_pretrained(str(place))
        tokenizer = place / "tokenizer.json"
        tokenizer.write_text(json.dumps(json.loads(tokenizer.read_text()), separators=(",", ":")) + "\n")
        for file in place.iterdir():
            file.chmod(0o644)


def parameters(model):
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def rows_of(path):
    return Dataset.from_list([json.loads(line) for line in path.read_text().splitlines()])


def freeze(model):
    """alignment-handbook's and Schmid's setup_model_for_spectrum."""
    for name, value in model.named_parameters():
        value.requires_grad = any(re.match(pattern, name) for pattern in UNFROZEN)


def logits_of(model):
    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor([IDS]), use_cache=False).logits[0]


class OnlineTrainer(online.Trainer):
    def keep_gradients(self):
        if not self.gradients:
            self.gradients = {key: value.grad.clone() for key, value in parameters(self.model).items()}


def sampled_run(name, method, model, tokenizer, options, place, out):
    """(trainer, first gradients, logged steps) of a method that samples; writes its rollouts."""
    model.generation_config.eos_token_id = grpo.ENDS
    rows = Dataset.from_list([{"prompt": prompt, "row": row} for row, prompt in enumerate(grpo.PROMPTS)])
    shared = dict(output_dir=place, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True, save_strategy="no", **options)
    if method == "online_dpo":
        trainer = OnlineTrainer(model, reward_funcs=[online.first], train_dataset=rows, processing_class=tokenizer,
                                args=OnlineDPOConfig(**shared))
        trainer.watch(online.ALL)
    else:
        make_config, make_trainer = TRAINERS[method]
        trainer = make_trainer(model, [grpo.first], train_dataset=rows, processing_class=tokenizer, args=make_config(**shared))
        recorder = grpo.Recorder(trainer, method, False, parameters)
    trainer.pop_callback(PrinterCallback)
    trainer.train()
    steps, _ = logged(trainer)
    if method == "online_dpo":
        batches, gradients = trainer.batches, trainer.gradients
        for step, loss in zip(steps, trainer.losses, strict=True):
            step["loss"] = loss
    else:
        batches, gradients = recorder.batches, recorder.gradients
    if options.get("sync_ref_model"):  # hone computes them from the reference that has moved
        for batch in batches:
            for sample in batch["samples"]:
                del sample["ref_logprobs"]
    (out / FOLDER / f"{name}.jsonl").write_text("\n".join(json.dumps(batch, separators=(",", ":")) for batch in batches) + "\n")
    return trainer, gradients, steps


def run(name, out):
    method, folder, data, options = cases()[name]
    # by its own class: that of Qwen2 splits text as Qwen2 does, whatever the file says
    own = folder.parent.name == FOLDER or folder.name.startswith("tiny_")
    tokenizer = AutoTokenizer.from_pretrained(str(LLAMA if own else folder))
    if method in ("cpo", "orpo"):
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token  # TRL refuses a tokenizer without one
    loader, more = AutoModelForCausalLM, {}
    if method == "reward":
        loader, more = AutoModelForSequenceClassification, dict(num_labels=1)
    model = loader.from_pretrained(str(folder), dtype=torch.float32, attn_implementation=attention_of(folder), **more)
    if name.startswith("spectrum"):
        freeze(model)
    given = {}
    if "eval_strategy" in options:
        given["eval_dataset"] = rows_of(FIXTURES / "sft/eval_text.jsonl")
    with tempfile.TemporaryDirectory() as place:
        if data is None:
            trainer, gradients, steps = sampled_run(name, method, model, tokenizer, options, place, out)
            evals = []
        else:
            make_config, make_trainer = TRAINERS[method]
            more = dict(remove_unused_columns=False) if method in ("cpo", "orpo") else {}
            args = make_config(output_dir=place, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True, save_strategy="no",
                               **more, **options)
            trainer = make_trainer(model, args=args, train_dataset=rows_of(data), processing_class=tokenizer, **given)
            gradients = trained(trainer, parameters)
            steps, evals = logged(trainer)
    steps = [{key: value for key, value in step.items() if key != "step_time"} for step in steps]
    write_json(out / FOLDER / f"{name}.json", {
        "versions": versions(), "method": method, "model": str(folder),
        "data": str(data or FIXTURES / "trl_grpo/prompts.jsonl"), "options": options, "steps": steps, "evals": evals}
        | ({"unfrozen": UNFROZEN} if name.startswith("spectrum") else {}))
    if name in KEPT:
        tied = trainer.model.config.tie_word_embeddings
        kept = lambda key: name.startswith(WHOLE) or (".layers.0." not in key and (tied or "embed_tokens" not in key))
        write_tensors(out / FOLDER / f"{name}.safetensors",
                      {f"grad.{key}": value for key, value in gradients.items() if kept(key)}
                      | {f"after.{key}": value for key, value in parameters(trainer.model).items()
                         if kept(key) and (name.startswith(WHOLE) or "embed_tokens" not in key)}
                      | ({} if method == "reward" else {"logits": logits_of(trainer.model)}))
    shown = [f"{key} {[float(f'{step[key]:.4g}') for step in steps]}" for key in ("loss", "grad_norm")]
    print(f"{name}: " + ", ".join(shown), flush=True)


def main():
    arguments = case_options(__doc__, FOLDER)
    out = arguments.out
    make_models(out)
    for name in cases():
        if arguments.asked(name):
            run(name, out)


main()
