"""What PEFT computes with DoRA, PiSSA, trainable_token_indices and several adapters, on the committed tiny_llama in fp32.

tiny_llama/adapter_dora/ (r 4, alpha 8, q, v and down, A, B and magnitudes random) and golden_dora.safetensors, as
record_tiny.py's; tiny_llama/adapter_second/ (r 4, alpha 4, rsLoRA off, q and gate, random); golden_stacked.safetensors: it
above adapter and adapter_rslora, both frozen, all three active; combined.safetensors: what
add_weighted_adapter makes of adapter and adapter_second, `linear.<key>`, `cat.<key>`, weights 0.7 and -0.4;
combined_otherwise.safetensors: the other kinds, of three modules, density 0.4; pissa.safetensors:
`A.<module>`, `B.<module>` and `rest.<module>` (the base weight that is left) of pissa with r 4, alpha 8; of tiny_llama (tied
head) and tiny_llama3 (a head of its own; layer 0 has no LoRA) adapter_tokens/ and golden_tokens.safetensors, as record_tiny.py's.
"""
from pathlib import Path

from common import adapter_parameters, options, peft_key, save_adapter, write_tensors
from record_tiny import attach, make_sequences, record

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

WEIGHTS = [0.7, -0.4]
# model -> (seed of record_tiny.py's sequences, LoraConfig): ids in and outside the sequences, in no order, in both forms
TOKENS = {
    "tiny_llama": (111, dict(target_modules="all-linear", trainable_token_indices=[291, 15, 25, 7, 300, 224])),
    "tiny_llama3": (112, dict(target_modules=r".*\.layers\.1\.(self_attn\.[qv]_proj|mlp\.down_proj)",
                              trainable_token_indices={"embed_tokens": [231, 16, 157, 5]})),
}
DENSITY = 0.4
OTHER_KINDS = {"svd": {}, "ties": {}, "ties_frequency": {"majority_sign_method": "frequency"}, "magnitude_prune": {},
               "ties_svd": {}, "magnitude_prune_svd": {}}


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def make_dora(folder, target):
    config = LoraConfig(r=4, lora_alpha=8, use_dora=True, target_modules=["q_proj", "v_proj", "down_proj"],
                        task_type="CAUSAL_LM")
    model = get_peft_model(load(folder), config)
    generator = torch.Generator().manual_seed(511)
    with torch.no_grad():
        for name, value in adapter_parameters(model).items():
            noise = torch.randn(value.shape, generator=generator)
            value.copy_(value * (1 + 0.2 * noise) if "magnitude" in name else 0.15 * noise)
    model.peft_config["default"].base_model_name_or_path = f"tests/fixtures/parity/{Path(folder).name}"
    save_adapter(model, target)


def combined(folder, first, second):
    model = PeftModel.from_pretrained(load(folder), first, adapter_name="first")
    model.load_adapter(second, adapter_name="second")
    tensors = {}
    for kind in ("linear", "cat"):
        model.add_weighted_adapter(["first", "second"], WEIGHTS, adapter_name=kind, combination_type=kind)
        for name, value in model.named_parameters():
            if f".{kind}." in name:
                tensors[f"{kind}." + peft_key(name.replace(f".{kind}", ""))] = value
        assert model.peft_config[kind].lora_alpha == model.peft_config[kind].r
    return tensors


def combined_otherwise(folder, first, second):
    """Of three modules alone: one that both adapters are on, with equal and with unequal sides, and one of the first."""
    model = PeftModel.from_pretrained(load(folder), first, adapter_name="first")
    model.load_adapter(second, adapter_name="second")
    tensors = {}
    for kind, more in OTHER_KINDS.items():
        model.add_weighted_adapter(["first", "second"], WEIGHTS, adapter_name=kind,
                                   combination_type=kind.removesuffix("_frequency"), density=DENSITY, **more)
        for name, value in model.named_parameters():
            if f".{kind}." in name and ".layers.1." in name and any(f".{m}." in name for m in ("q_proj", "gate_proj", "v_proj")):
                tensors[f"{kind}." + peft_key(name.replace(f".{kind}", ""))] = value
    return tensors


def pissa(folder):
    config = LoraConfig(r=4, lora_alpha=8, init_lora_weights="pissa", target_modules=["q_proj", "down_proj"],
                        task_type="CAUSAL_LM")
    model = get_peft_model(load(folder), config)
    tensors = {}
    for name, value in model.named_parameters():
        name = peft_key(name).removeprefix("base_model.model.").removesuffix(".weight")
        for part, label in ((".lora_A", "A"), (".lora_B", "B"), (".base_layer", "rest")):
            if name.endswith(part):
                tensors[f"{label}.{name.removesuffix(part)}"] = value
    return tensors


def main():
    out = options(__doc__).out / "tiny_llama"
    folder = "tests/fixtures/parity/tiny_llama"
    sequences = make_sequences(384, 111)
    make_dora(folder, out / "adapter_dora")
    record(folder, str(out / "adapter_dora"), out / "golden_dora.safetensors", sequences, out)
    attach(folder, LoraConfig(r=4, lora_alpha=4, target_modules=["q_proj", "gate_proj"], task_type="CAUSAL_LM"),
           out / "adapter_second", 611)
    for name, (seed, config) in TOKENS.items():
        base, here = f"tests/fixtures/parity/{name}", out.parent / name
        attach(base, LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM", **config), here / "adapter_tokens", seed + 600)
        record(base, str(here / "adapter_tokens"), here / "golden_tokens.safetensors",
               make_sequences(load(base).config.vocab_size, seed), out)
    record(folder, str(out / "adapter_second"), out / "golden_stacked.safetensors", sequences, out,
           below=[f"{folder}/adapter", f"{folder}/adapter_rslora"])
    write_tensors(out / "combined.safetensors", combined(folder, f"{folder}/adapter", str(out / "adapter_second")),
                  source="PEFT add_weighted_adapter, fp32", weights=WEIGHTS)
    write_tensors(out / "combined_otherwise.safetensors",
                  combined_otherwise(folder, f"{folder}/adapter", str(out / "adapter_second")),
                  source="PEFT add_weighted_adapter, fp32", weights=WEIGHTS, density=DENSITY)
    write_tensors(out / "pissa.safetensors", pissa(folder), source="PEFT pissa, fp32")


if __name__ == "__main__":
    main()
