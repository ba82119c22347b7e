"""Tiny random models of each family with a PEFT adapter, and what transformers + PEFT compute with them in fp32.

For each family FIXTURES/tiny_<family>/ gets config.json and weights (saved by transformers), adapter/ (PEFT: r 4, alpha 8,
all-linear, A and B random and non-zero) and golden.safetensors; tiny_llama also gets adapter_rslora/ (r 4, rsLoRA,
target_modules a regex) and golden_rslora.safetensors. --only FAMILY ... records those. Golden tensors, T tokens of one sequence, V vocabulary:
  ids_n [T] i64, labels_n [T] i64 (-100 not scored), logits_n [T,V] f32 (adapter on), n = 0, 1, 2
  base_logits_0 [T,V] (adapter off), merged_logits_0 [T,V] (merge_and_unload)
  loss [1] f32 (sum of nll over the three sequences / scored tokens), grad.<PEFT key> f32 (d loss)
"""
import itertools
import json
import shutil
from pathlib import Path

from common import adapter_parameters, attention_of, open_to_read, options, save_adapter, sequence_loss, write_tensors

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (Exaone4Config, Exaone4ForCausalLM, GraniteMoeConfig, GraniteMoeForCausalLM, MixtralConfig, MixtralForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM, Gemma2Config, Gemma2ForCausalLM, GemmaConfig, GemmaForCausalLM, Gemma3Config, Gemma3ForCausalLM, Gemma3ForConditionalGeneration, Gemma3TextConfig, Gemma4Config, Gemma4ForCausalLM,
                          Gemma4ForConditionalGeneration, Gemma4TextConfig, Mistral3Config,
                          Mistral3ForConditionalGeneration, GraniteConfig,
                          GraniteForCausalLM, GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM, Lfm2Config, Lfm2ForCausalLM, LlamaConfig, LlamaForCausalLM,
                          Ministral3Config, Ministral3ForCausalLM, MistralConfig, MistralForCausalLM, Olmo3Config, Olmo3ForCausalLM, OlmoeConfig, OlmoeForCausalLM, Olmo2Config,
                          Olmo2ForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM, Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration, Qwen3_5TextConfig, SmolLM3Config, SmolLM3ForCausalLM)

SHAPE = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3_ROPE = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64)  # 64: wavelengths 6, 32, 167, ... hit all three bands
# For the families after the first three, with tiny_llama's tokenizer; the longest sequence is four windows long.
SMALL = dict(SHAPE, vocab_size=384, hidden_size=32, intermediate_size=48)
WINDOW = 5
GEMMA4 = dict(SMALL, num_hidden_layers=6, head_dim=8, global_head_dim=16, sliding_window=WINDOW, num_kv_shared_layers=4,
              layer_types=["sliding_attention", "full_attention"] * 3, use_double_wide_mlp=True, hidden_size_per_layer_input=8,
              vocab_size_per_layer_input=SMALL["vocab_size"])
LONG = (7, 69, 140)
SEEDS = {"gemma4": 91, "qwen3_5": 86, "granite4": 61, "granite4_nope": 62, "gemma2": 27, "lfm2_bias": 31}  # of those whose place in the list has changed since they were recorded
IMAGES = {"gemma4_images": 92, "gemma3_images": 71, "mistral3_images": 72, "qwen3_5_images": 82}  # with their seeds
OTHER_PARTS = r"(?!model\.language_model\.|lm_head|score).*"  # as hone writes it
RSLORA_TARGETS = r".*\.layers\.[01]\.(self_attn\.[qv]_proj|mlp\.down_proj)"


def gemma4_factor(name):
    """What keeps a tiny Gemma 4 from enlarging its rounding: its scores have no other scale than the norm of queries; and of
    few gates all may be closed, when a norm reads what rounding left (a real layer has 256)."""
    if name.endswith("q_norm.weight"):
        return 0.3
    if name.endswith("per_layer_input_gate.weight"):
        return 0.25
    after = ("post_attention_layernorm", "post_feedforward_layernorm", "post_per_layer_input_norm")
    return 0.5 if any(word in name for word in after) else 1


def families():
    """name -> (model, form of config.json, max_shard_size)"""
    yield "llama", LlamaForCausalLM(LlamaConfig(vocab_size=384, tie_word_embeddings=True, rope_theta=1e4,
                                                rms_norm_eps=1e-5, **SHAPE)), "v5", "5GB"
    yield "llama3", LlamaForCausalLM(LlamaConfig(vocab_size=256, tie_word_embeddings=False, rms_norm_eps=1e-5,
                                                 rope_parameters=dict(LLAMA3_ROPE, rope_theta=5e5), **SHAPE)), "old", "5GB"
    yield "qwen2", Qwen2ForCausalLM(Qwen2Config(vocab_size=320, tie_word_embeddings=True, rope_theta=1e6,
                                                rms_norm_eps=1e-6, **SHAPE)), "old", "150KB"
    yield "qwen3", Qwen3ForCausalLM(Qwen3Config(vocab_size=256, tie_word_embeddings=True, head_dim=32, rope_theta=1e6,
                                                rms_norm_eps=1e-6, **dict(SHAPE, intermediate_size=64))), "v5", "5GB"
    yield "mistral", MistralForCausalLM(MistralConfig(sliding_window=WINDOW, head_dim=16, **SMALL)), "v5", "5GB"
    yield "smollm3", SmolLM3ForCausalLM(SmolLM3Config(**dict(SMALL, num_hidden_layers=4))), "old", "5GB"
    yield "granite", GraniteForCausalLM(GraniteConfig(embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.3,
                                                      logits_scaling=0.4, tie_word_embeddings=True, **SMALL)), "v5", "5GB"
    yield "olmo2", Olmo2ForCausalLM(Olmo2Config(**SMALL)), "v5", "5GB"
    yield "gemma3", Gemma3ForCausalLM(Gemma3TextConfig(
        head_dim=16, query_pre_attn_scalar=24, sliding_window=WINDOW, layer_types=["sliding_attention", "sliding_attention",
                                                                                  "full_attention"],
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
        **dict(SMALL, num_hidden_layers=3))), "v5", "5GB"
    yield "phi3", Phi3ForCausalLM(Phi3Config(sliding_window=WINDOW, **SMALL)), "v5", "5GB"
    yield "qwen2_windows", Qwen2ForCausalLM(Qwen2Config(use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1,
                                                        **SMALL)), "old", "5GB"
    # Without biases of the convolutions, as all released models: transformers' left padding would pass through them.
    yield "lfm2", Lfm2ForCausalLM(Lfm2Config(layer_types=["conv", "full_attention", "conv"], block_multiple_of=8,
                                             **dict(SMALL, num_hidden_layers=3))), "v5", "5GB"
    # Phi-4-mini's form: heads of 16 columns of which 12 rotate, and a tied head; all sequences above are long, or short.
    for name, original in (("phi3_long", 5), ("phi3_short", 24)):
        yield name, Phi3ForCausalLM(Phi3Config(
            tie_word_embeddings=True, partial_rotary_factor=0.75, original_max_position_embeddings=original,
            rope_parameters={"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.1, 1.3, 1.7, 2.0, 2.5],
                             "long_factor": [1.2, 2.0, 4.0, 8.0, 16.0, 32.0]},
            **dict(SMALL, num_attention_heads=2, num_key_value_heads=1))), "old" if name == "phi3_long" else "v5", "5GB"
    yield "qwen3_yarn", Qwen3ForCausalLM(Qwen3Config(head_dim=16, rope_parameters={
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128,
        "attention_factor": 0.8}, **SMALL)), "old", "5GB"
    yield "ministral3", Ministral3ForCausalLM(Ministral3Config(head_dim=16, rope_parameters={
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 16.0, "original_max_position_embeddings": 6, "beta_fast": 2.0,
        "beta_slow": 0.1, "mscale": 1.0, "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.4}, **SMALL)), "v5", "5GB"
    # The first layer is dense; all-linear adapts routers and experts of the others.
    yield "qwen3_moe", Qwen3MoeForCausalLM(Qwen3MoeConfig(
        head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True, mlp_only_layers=[0],
        **dict(SMALL, num_hidden_layers=3))), "v5", "5GB"
    yield "mixtral", MixtralForCausalLM(MixtralConfig(num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW,
                                                      **SMALL)), "v5", "5GB"
    yield "granitemoe", GraniteMoeForCausalLM(GraniteMoeConfig(
        embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.3, logits_scaling=0.4, tie_word_embeddings=True,
        num_local_experts=5, num_experts_per_tok=3, **SMALL)), "v5", "5GB"
    yield "gemma", GemmaForCausalLM(GemmaConfig(head_dim=16, **SMALL)), "old", "5GB"
    yield "olmo3", Olmo3ForCausalLM(Olmo3Config(
        sliding_window=WINDOW, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 8},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 5e3}},
        **dict(SMALL, num_hidden_layers=3))), "v5", "5GB"
    yield "gemma2", Gemma2ForCausalLM(Gemma2Config(
        head_dim=16, query_pre_attn_scalar=4, sliding_window=WINDOW, attn_logit_softcapping=0.3, final_logit_softcapping=1.5,
        **dict(SMALL, num_hidden_layers=3))), "v5", "5GB"
    for name, positions in (("granite4", "rope"), ("granite4_nope", None)):  # both kinds of the dense models
        yield name, GraniteMoeHybridForCausalLM(GraniteMoeHybridConfig(
            embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.3, logits_scaling=0.4, tie_word_embeddings=name == "granite4",
            num_local_experts=0, num_experts_per_tok=0, layer_types=["attention"] * 2, position_embedding_type=positions, mamba_n_heads=4,
            shared_intermediate_size=48, **dict(SMALL, intermediate_size=7))), "v5" if name == "granite4" else "old", "5GB"
    # Chunks of 64 tokens: LONG has sequences of two and three.
    yield "qwen3_5", Qwen3_5ForCausalLM(Qwen3_5TextConfig(
        head_dim=16, layer_types=["linear_attention", "full_attention", "linear_attention"], linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12, rope_parameters={
            "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1],
            "mrope_interleaved": True}, **dict(SMALL, num_hidden_layers=3))), "v5", "5GB"
    # Two layers of each type that read keys and values of another one.
    yield "gemma4", Gemma4ForCausalLM(Gemma4TextConfig(final_logit_softcapping=2.0, **GEMMA4)), "v5", "5GB"
    yield "lfm2_bias", Lfm2ForCausalLM(Lfm2Config(full_attn_idxs=[0], conv_L_cache=4, conv_bias=True,
                                                  block_multiple_of=8, tie_word_embeddings=False, **SMALL)), "old", "5GB"
    # What llama.cpp's olmoe can have: as many heads of keys as of queries, and weights of experts that do not add up to 1.
    yield "olmoe", OlmoeForCausalLM(OlmoeConfig(num_experts=6, num_experts_per_tok=3,
                                                **dict(SMALL, num_key_value_heads=4, intermediate_size=24))), "v5", "5GB"
    # The form of 32B, and that of 1.2B, which has no windows and which a GGUF can hold.
    yield "exaone4", Exaone4ForCausalLM(Exaone4Config(
        sliding_window=WINDOW, sliding_window_pattern=2, **dict(SMALL, num_hidden_layers=3))), "old", "5GB"
    yield "exaone4_full", Exaone4ForCausalLM(Exaone4Config(
        sliding_window=None, layer_types=["full_attention"] * 2, tie_word_embeddings=True,
        rope_parameters=dict(LLAMA3_ROPE, rope_theta=1e4), **SMALL)), "v5", "5GB"


def models_with_images():
    """The same of models with images, of which hone has the text model (src/model/config/wrappers.h)."""
    vision = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
    text = dict(SMALL, head_dim=16, sliding_window=WINDOW)
    yield "gemma3_images", Gemma3ForConditionalGeneration(Gemma3Config(
        text_config=dict(text, query_pre_attn_scalar=24, layer_types=["sliding_attention", "full_attention"]),
        vision_config=vision, mm_tokens_per_image=4, image_token_index=5, boi_token_index=6, eoi_token_index=7)), "v5", "5GB"
    yield "gemma4_images", Gemma4ForConditionalGeneration(Gemma4Config(
        text_config=dict(GEMMA4, final_logit_softcapping=2.0),
        vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=8,
                           position_embedding_size=16, patch_size=4), audio_config=None,
        image_token_id=5, video_token_id=6, audio_token_id=7, boi_token_id=8, eoi_token_id=9, boa_token_id=10, eoa_token_index=11)), "v5", "5GB"
    yield "mistral3_images", Mistral3ForConditionalGeneration(Mistral3Config(
        text_config=dict(text, model_type="ministral3", rope_parameters={
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 16.0, "original_max_position_embeddings": 6, "beta_fast": 2.0,
            "beta_slow": 0.1, "mscale": 1.0, "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.4}),
        vision_config=dict(vision, model_type="pixtral", head_dim=8), image_token_index=5, tie_word_embeddings=False)), "v5", "5GB"
    yield "qwen3_5_images", Qwen3_5ForConditionalGeneration(Qwen3_5Config(
        text_config=dict(SMALL, head_dim=16, full_attention_interval=2, linear_num_key_heads=2, linear_num_value_heads=2,
                         linear_key_head_dim=12, linear_value_head_dim=8, linear_conv_kernel_dim=3, tie_word_embeddings=True),
        vision_config=dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=32,
                           num_position_embeddings=16), tie_word_embeddings=True,
        image_token_id=5, video_token_id=6, vision_start_token_id=7, vision_end_token_id=8)), "v5", "5GB"


def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=generator)
            if "norm" in name:
                value.copy_(1.0 + 0.2 * noise)
            elif name.endswith("A_log"):
                value.copy_(noise - 3.0)  # what a head holds lasts for many tokens
            else:
                value.copy_((0.2 if name.endswith("bias") else 0.8 if "conv.conv" in name or "conv1d" in name else 0.08) * noise)


    for name, value in model.named_parameters():
        if "Gemma4" in type(model).__name__:
            value.data *= gemma4_factor(name)
    for name, value in model.named_buffers():
        if name.endswith("layer_scalar"):
            value.copy_(1.0 + 0.2 * torch.randn(value.shape, generator=generator))


def to_old_form(folder):
    """Rewrites a v5 config.json as transformers 4 wrote it: torch_dtype, rope_theta and rope_scaling at the top."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["torch_dtype"] = config.pop("dtype")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["transformers_version"] = "4.45.0"
    types = config.pop("layer_types", None)
    if config["model_type"] == "granitemoehybrid":
        config["layer_types"] = ["attention" for _ in types]
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def opened(folder, **more):
    """The class that config.json names, as TRL opens a model; AutoModelForCausalLM has no class for each of those with images."""
    name = json.loads((Path(folder) / "config.json").read_text())["architectures"][0]
    return getattr(transformers, name).from_pretrained(folder, dtype=torch.float32, **more)


def make_sequences(vocab, seed, lengths=(7, 13, 21)):
    generator = torch.Generator().manual_seed(seed)
    sequences = []
    for length, (hidden_from, hidden_to) in zip(lengths, ((0, 0), (0, 6), (9, 12))):
        ids = torch.randint(3, vocab, (length,), generator=generator)
        labels = ids.clone()
        labels[hidden_from:hidden_to] = -100
        sequences.append((ids, labels))
    return sequences


def record(folder, adapter, golden, sequences, out, below=()):
    """Everything is computed from the files as written, reloaded. `below`: adapters that are active with it, and frozen;
    base_logits_0 has them too."""
    load = lambda: opened(folder, attn_implementation=attention_of(folder))

    def active():
        model = PeftModel.from_pretrained(load(), adapter, is_trainable=True).eval()
        for name in below:
            model.load_adapter(name, adapter_name=Path(name).name)
        if below:
            model.base_model.set_adapter(["default", *(Path(name).name for name in below)])
            for name, value in model.named_parameters():
                value.requires_grad_(".default." in name)
        return model

    model = active()
    loss, logits = sequence_loss(model, sequences)
    loss.backward()
    tensors = {"loss": loss.reshape(1)}
    for n, (ids, labels) in enumerate(sequences):
        tensors |= {f"ids_{n}": ids, f"labels_{n}": labels, f"logits_{n}": logits[n]}
    tensors |= {f"grad.{name}": value.grad for name, value in adapter_parameters(model).items()}
    first = sequences[0][0][None]
    own = adapter_parameters(model)
    with torch.no_grad():
        if below:
            model.base_model.set_adapter([Path(name).name for name in below])
            tensors["base_logits_0"] = model(input_ids=first).logits[0]
        else:
            with model.disable_adapter():
                tensors["base_logits_0"] = model(input_ids=first).logits[0]
        tensors["merged_logits_0"] = active().merge_and_unload()(input_ids=first).logits[0]
    spread = logits[2].std().item()
    assert 0.2 < spread < 20, f"degenerate logits: std {spread}"
    assert all(value.grad.norm() > 0 for value in own.values())
    write_tensors(golden, tensors, source="transformers + PEFT, fp32, sdpa, cpu")
    print(f"{golden}: loss {loss.item():.6f}, logits std {spread:.3f}")


def attach(folder, config, target, seed):
    model = get_peft_model(opened(folder), config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in adapter_parameters(model).values():
            value.copy_(0.15 * torch.randn(value.shape, generator=generator))
    # PEFT records the folder it loaded from; goldens name the committed place wherever they are recorded.
    model.peft_config["default"].base_model_name_or_path = f"tests/fixtures/parity/{Path(folder).name}"
    save_adapter(model, target)


def main():
    arguments = options(__doc__, lambda parser: parser.add_argument("--only", nargs="*", default=[], help="families"))
    for seed, (family, model, form, shard) in enumerate(itertools.chain(families(), models_with_images()), start=11):
        if arguments.only and family not in arguments.only:
            continue
        seed = (SEEDS | IMAGES).get(family, seed)
        folder = arguments.out / f"tiny_{family}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        randomize(model, seed)
        model.save_pretrained(str(folder), max_shard_size=shard)
        open_to_read(folder)
        if form == "old":
            to_old_form(folder)
        if family == "llama" or model.config.get_text_config().vocab_size == SMALL["vocab_size"]:  # models of the TRL runs have a tokenizer
            for name in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(f"tests/fixtures/text/tiny/{name}", folder)
        sequences = make_sequences(model.config.get_text_config().vocab_size, seed + 100,
                                   *((LONG,) if family.startswith("qwen3_5") else ()))
        other = OTHER_PARTS if family in IMAGES else None
        attach(str(folder), LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", exclude_modules=other, task_type="CAUSAL_LM"),
               folder / "adapter", seed + 200)
        record(str(folder), str(folder / "adapter"), folder / "golden.safetensors", sequences, arguments.out)
        if family == "llama":
            attach(str(folder), LoraConfig(r=4, lora_alpha=8, use_rslora=True, target_modules=RSLORA_TARGETS,
                                           task_type="CAUSAL_LM"), folder / "adapter_rslora", seed + 300)
            record(str(folder), str(folder / "adapter_rslora"), folder / "golden_rslora.safetensors", sequences,
                   arguments.out)


if __name__ == "__main__":
    main()
