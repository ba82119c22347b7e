"""What PEFT computes with rank_pattern, alpha_pattern, layers_to_transform, modules_to_save, bias, and with LoRA on the head
and the embedding, on the committed tiny models in fp32.

CASES says which: each gets FIXTURES/<model>/adapter_<case>/ (r 4, alpha 8; the LoRA random, what is trained in full the
base's plus noise) and golden_<case>.safetensors: ids, labels, logits, loss and grad.* as record_tiny.py's; base_logits_0 is of
the base model as it was loaded, since PEFT leaves trained biases in place when an adapter is disabled. merged_logits_0 only
where PEFT's merge is the adapter: with a tied head, LoRA on it or on the embedding changes both there (PEFT#2777).
"""
from common import adapter_parameters, options, save_adapter, sequence_loss, write_tensors
from record_tiny import make_sequences

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

NORMS_AND_ENDS = ["lm_head", "embed_tokens", "norm"]
CASES = {  # (model, case): (seed, LoraConfig)
    ("tiny_llama", "patterns"): (711, dict(
        target_modules=["q_proj", "v_proj", "up_proj", "down_proj"], use_rslora=True,
        rank_pattern={"q_proj": 2, r"layers\.1\.mlp\..*": 6}, alpha_pattern={"v_proj": 3, "1.mlp.down_proj": 20})),
    ("tiny_llama", "saved"): (712, dict(target_modules=["q_proj", "up_proj"], modules_to_save=NORMS_AND_ENDS)),
    ("tiny_llama", "ends"): (713, dict(target_modules=["q_proj", "lm_head", "embed_tokens"])),
    ("tiny_llama3", "layers"): (714, dict(target_modules=["q_proj", "o_proj", "down_proj"], layers_to_transform=[1],
                                          layers_pattern=["layers"], alpha_pattern={"o_proj": 2})),
    ("tiny_llama3", "saved"): (715, dict(target_modules="all-linear", modules_to_save=["lm_head"])),
    ("tiny_llama3", "ends"): (716, dict(target_modules=["v_proj", "lm_head", "embed_tokens"],
                                        rank_pattern={"lm_head": 2, "embed_tokens": 3})),
    ("tiny_llama3", "dora_head"): (717, dict(target_modules=["v_proj", "lm_head"], use_dora=True)),
    ("tiny_qwen2", "bias_all"): (718, dict(target_modules=["q_proj", "o_proj"], bias="all", modules_to_save=["model.norm"])),
    ("tiny_qwen2", "bias_lora"): (719, dict(target_modules=["k_proj", "v_proj"], bias="lora_only", use_dora=True)),
}
MERGES_OTHERWISE = {("tiny_llama", "ends")}


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")


def make(folder, target, seed, config):
    model = get_peft_model(load(folder), LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM", **config))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in adapter_parameters(model).items():
            noise = torch.randn(value.shape, generator=generator)
            if "magnitude" in name:
                value.mul_(1 + 0.2 * noise)
            elif "lora_" in name:
                value.copy_(0.15 * noise)
            else:
                value.add_(0.1 * noise)
    model.peft_config["default"].base_model_name_or_path = folder
    save_adapter(model, target)


def record(folder, adapter, golden, sequences, merges):
    model = PeftModel.from_pretrained(load(folder), str(adapter), is_trainable=True).eval()
    loss, logits = sequence_loss(model, sequences)
    loss.backward()
    tensors = {"loss": loss.reshape(1)}
    for n, (ids, labels) in enumerate(sequences):
        tensors |= {f"ids_{n}": ids, f"labels_{n}": labels, f"logits_{n}": logits[n]}
    own = adapter_parameters(model)
    tensors |= {f"grad.{name}": value.grad for name, value in own.items()}
    assert all(value.grad.norm() > 0 for value in own.values())
    first = sequences[0][0][None]
    with torch.no_grad():
        tensors["base_logits_0"] = load(folder)(input_ids=first).logits[0]
        if merges:
            merged = PeftModel.from_pretrained(load(folder), str(adapter)).merge_and_unload()
            tensors["merged_logits_0"] = merged(input_ids=first).logits[0]
    write_tensors(golden, tensors, source="transformers + PEFT, fp32, sdpa, cpu")
    print(f"{golden}: loss {loss.item():.6f}, {len(own)} tensors")


def main():
    out = options(__doc__).out
    for (model, case), (seed, config) in CASES.items():
        folder = f"tests/fixtures/parity/{model}"
        make(folder, out / model / f"adapter_{case}", seed, config)
        record(folder, out / model / f"adapter_{case}", out / model / f"golden_{case}.safetensors",
               make_sequences(load(folder).config.vocab_size, seed), (model, case) not in MERGES_OTHERWISE)


if __name__ == "__main__":
    main()
