"""Runs of TRL's trainers that train every weight (use_peft false), on CPU in fp32, step by step: FIXTURES/trl_full/<case>.json,
and <case>.safetensors of the cases in KEPT. usage: record_trl_full.py [--only PREFIX] [--out FOLDER]

Models: tiny_llama (tied head); qwen2 (biases, tied), qwen3 (Q/K norm, a head of its own), made here, in trl_full/<family>, with
tiny_llama's tokenizer; rewards/tiny_reward for reward models; SmolLM2 (models/smollm2-f32) in cases named smollm2_*. The reference of
DPO, KTO and GRPO is TRL's second copy. Completions of GRPO are replayed, as those of record_trl_grpo.py: <case>.jsonl.

<case>.json: versions; method; model; data; options (what differs from TRL's defaults, in TRL's names); steps: one an optimizer step, as
logged, unrounded, under TRL's names; evals: as logged; unfrozen: the patterns of a Spectrum file, in cases named spectrum_*.
<case>.safetensors: grad.<name> of the first optimizer step before clipping, after.<name>, the weights after the last step."""
import json
import re
import tempfile

import record_trl_grpo as grpo
from common import FIXTURES, SMOLLM2, versions, write_json, write_tensors
from trl_training import case_options, logged, trained

import torch
from datasets import Dataset
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, PrinterCallback, Qwen2Config,
                          Qwen3Config)
from trl import (DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, KTOConfig, KTOTrainer, RewardConfig, RewardTrainer, SFTConfig,
                 SFTTrainer)

FOLDER = "trl_full"
LLAMA = FIXTURES / "tiny_llama"
QWEN2, QWEN3 = FIXTURES / FOLDER / "qwen2", FIXTURES / FOLDER / "qwen3"
REWARD = FIXTURES / "rewards" / "tiny_reward"
KEPT = ("sft_llama", "sft_qwen2", "sft_qwen3", "dpo", "reward", "grpo_kl", "spectrum_qwen3")
TEXT, COMPLETION = FIXTURES / "sft/text.jsonl", FIXTURES / "sft/prompt_completion.jsonl"
PAIRS, UNPAIRED, SCORED = (FIXTURES / "trl_dpo/explicit.jsonl", FIXTURES / "trl_kto/rows.jsonl", FIXTURES / "trl_reward/explicit.jsonl")
TRAINERS = {"sft": (SFTConfig, SFTTrainer), "dpo": (DPOConfig, DPOTrainer), "kto": (KTOConfig, KTOTrainer),
            "reward": (RewardConfig, RewardTrainer), "grpo": (GRPOConfig, GRPOTrainer)}
# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding, and later steps differ.
SHARED = dict(bf16=False, per_device_train_batch_size=2, gradient_accumulation_steps=2, learning_rate=1e-3, adam_epsilon=1e-5,
              max_steps=10)
SFT = dict(SHARED, max_length=64, lr_scheduler_type="cosine", warmup_steps=2)
UNFROZEN = ["^model.embed_tokens.weight$", "model.layers.1.mlp.down_proj", "model.layers.1.self_attn.q_proj", "^lm_head.weight$",
            "model.layers.0.input_layernorm"]


def cases():
    """name -> (method, model, data, options)"""
    out = {f"sft_{family}": ("sft", model, TEXT, SFT) for family, model in (("llama", LLAMA), ("qwen2", QWEN2), ("qwen3", QWEN3))}
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
    out["smollm2_sft"] = ("sft", SMOLLM2, TEXT, dict(SFT, max_length=64, learning_rate=1e-5))
    return out


def make_models(out):
    """Tiny models of the families that tiny_llama's tokenizer has no row too many for."""
    shape = dict(vocab_size=384, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=256, rope_theta=10000.0, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    for folder, config in ((QWEN2, Qwen2Config(**shape, tie_word_embeddings=True)),
                           (QWEN3, Qwen3Config(**shape, head_dim=16, tie_word_embeddings=False))):
        torch.manual_seed(11)
        model = AutoModelForCausalLM.from_config(config)
        with torch.no_grad():  # so that norms and biases matter
            for name, value in model.named_parameters():
                value.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.2)
        place = out / FOLDER / folder.name
        model.save_pretrained(str(place))
        AutoTokenizer.from_pretrained(str(LLAMA)).save_pretrained(str(place))
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


def run(name, out):
    method, folder, data, options = cases()[name]
    make_config, make_trainer = TRAINERS[method]
    # by its own class: that of Qwen2 splits text as Qwen2 does, whatever the file says
    tokenizer = AutoTokenizer.from_pretrained(str(LLAMA if folder in (QWEN2, QWEN3) else folder))
    loader, more = AutoModelForCausalLM, {}
    if method == "reward":
        loader, more = AutoModelForSequenceClassification, dict(num_labels=1)
    model = loader.from_pretrained(str(folder), dtype=torch.float32, attn_implementation="sdpa", **more)
    if name.startswith("spectrum"):
        freeze(model)
    given = {}
    if "eval_strategy" in options:
        given["eval_dataset"] = rows_of(FIXTURES / "sft/eval_text.jsonl")
    with tempfile.TemporaryDirectory() as place:
        args = make_config(output_dir=place, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True, save_strategy="no",
                           **options)
        if method == "grpo":
            model.generation_config.eos_token_id = grpo.ENDS
            rows = Dataset.from_list([{"prompt": prompt, "row": row} for row, prompt in enumerate(grpo.PROMPTS)])
            trainer = make_trainer(model, [grpo.first], train_dataset=rows, processing_class=tokenizer, args=args)
            recorder = grpo.Recorder(trainer, method, False, parameters)
            trainer.pop_callback(PrinterCallback)
            trainer.train()
            gradients = recorder.gradients
            lines = [json.dumps(batch) for batch in recorder.batches]
            (out / FOLDER / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        else:
            trainer = make_trainer(model, args=args, train_dataset=rows_of(data), processing_class=tokenizer, **given)
            gradients = trained(trainer, parameters)
    steps, evals = logged(trainer)
    steps = [{key: value for key, value in step.items() if key != "step_time"} for step in steps]
    write_json(out / FOLDER / f"{name}.json", {
        "versions": versions(), "method": method, "model": str(folder),
        "data": str(data or FIXTURES / "trl_grpo/prompts.jsonl"), "options": options, "steps": steps, "evals": evals}
        | ({"unfrozen": UNFROZEN} if name.startswith("spectrum") else {}))
    if name in KEPT:
        write_tensors(out / FOLDER / f"{name}.safetensors",
                      {f"grad.{key}": value for key, value in gradients.items()}
                      | {f"after.{key}": value for key, value in parameters(trainer.model).items()})
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
