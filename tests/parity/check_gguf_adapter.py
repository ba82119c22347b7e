"""`hone export`, with --adapter_only or merged, loaded by llama.cpp: the greedy text of hone's own base and adapter."""
import json
import shutil

from check_generation import TEXTS, generated
from check_harness import FIXTURES, hone, tiny_model
from record_tiny import attach, randomize

import transformers
import xllamacpp
from peft import LoraConfig

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def llama_cpp(base, adapter, prompts, tokens):
    """Greedy completions of llama.cpp, keys and values in float32. Without its flash attention, which rounds, its log probabilities
    are within 1e-5 of transformers'; those of Gemmas, whose GELU it takes from a table of 16-bit values, within 1e-2."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(base)
    parameters.n_ctx, parameters.warmup, parameters.verbosity = 512, False, -1
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if adapter:
        parameters.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(adapter), 1.0)]
    server = xllamacpp.Server(parameters)
    asked = [server.handle_completions({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "top_k": 1}) for prompt in prompts]
    return [answer["choices"][0]["text"] for answer in asked]


def same_text(check, model, adapter, prompts, tokens):
    base, lora = check.folder("base.gguf"), check.folder("adapter.gguf")
    for path in (base, lora):
        path.unlink(missing_ok=True)
    hone("export", "--model_name_or_path", model, "--output", base, "--outtype", "f32", "--compare", 0)
    hone("export", "--model_name_or_path", model, "--adapter_name_or_path", adapter, "--adapter_only", "--output", lora)
    mine = [line["completion"] for line in generated(check, model, prompts, tokens, False, adapter)]
    theirs = llama_cpp(base, lora, prompts, tokens)
    equal = sum(a == b for a, b in zip(mine, theirs, strict=True))
    assert equal == len(prompts), next(f"{p!r}: hone {a!r}, llama.cpp {b!r}" for p, a, b in zip(prompts, mine, theirs) if a != b)
    without = llama_cpp(base, None, prompts, tokens)
    moved = sum(a != b for a, b in zip(theirs, without, strict=True))
    assert moved > 0, "the adapter changes nothing, so this compares nothing"
    return f"{equal} of {len(prompts)} completions equal, {moved} of them other than the base's"


def same_merged_text(check, model, adapter, prompts, tokens):
    """An adapter on experts is no file of its own; merged, its text is not the base's."""
    merged, base = check.folder("merged.gguf"), check.folder("base.gguf")
    for path in (merged, base):
        path.unlink(missing_ok=True)
    hone("export", "--model_name_or_path", model, "--output", base, "--outtype", "f32", "--compare", 0)
    hone("export", "--model_name_or_path", model, "--adapter_name_or_path", adapter, "--output", merged, "--outtype", "f32", "--compare", 0)
    mine = [line["completion"] for line in generated(check, model, prompts, tokens, False, adapter)]
    theirs, without = llama_cpp(merged, None, prompts, tokens), llama_cpp(base, None, prompts, tokens)
    assert mine == theirs, next(f"{p!r}: hone {a!r}, llama.cpp {b!r}" for p, a, b in zip(prompts, mine, theirs) if a != b)
    assert theirs != without, "the adapter changes nothing, so this compares nothing"
    return f"{len(prompts)} completions equal"


def gguf_model(check, family, changes):
    """A copy whose config.json a GGUF can say; llama.cpp wants other tokens of a model that is called phi3."""
    folder = check.folder(f"gguf_{family.removeprefix('tiny_phi3_')}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(tiny_model(check, family), folder)
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"] |= changes.pop("rope_parameters", {})
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def made_model(check, family, changes):
    """Of other shapes than the fixture, which llama.cpp can load, so with weights of its own."""
    folder = check.folder(f"made_{family}")
    shutil.copytree(tiny_model(check, family), folder)
    (folder / "model.safetensors").unlink()
    kind = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
    model = kind(kind.config_class.from_pretrained(folder, **changes))
    randomize(model, 5)
    model.save_pretrained(folder)
    return folder


def adapter_of(folder, alpha=8, **targets):
    """PEFT's, random; those of models whose tied embedding outweighs their layers need a larger alpha to change a text."""
    config = LoraConfig(r=4, lora_alpha=alpha, task_type="CAUSAL_LM", **({"target_modules": "all-linear"} | targets))
    target = folder.parent / f"{folder.name}_adapter"
    shutil.rmtree(target, ignore_errors=True)
    attach(str(folder), config, target, 6)
    return target


def file_of_new_adapter(check, make, alpha, targets):
    model = make()
    return same_text(check, model, adapter_of(model, alpha, **targets), TEXTS[:4], 12)


def merged_new_adapter(check, make):
    model = make()
    return same_merged_text(check, model, adapter_of(model), TEXTS[:4], 12)


def later_cases(check):
    made = {  # of what llama.cpp can load
        # heads of keys and of values are equally wide
        "tiny_qwen3_5": {"linear_value_head_dim": 8, "num_hidden_layers": 4,
                         "layer_types": ["linear_attention", "full_attention"] * 2},
        # no window in every sixth layer, and scores scaled by the width of heads
        "tiny_gemma3": {"query_pre_attn_scalar": 16, "num_hidden_layers": 7,
                        "layer_types": ["full_attention" if i == 5 else "sliding_attention" for i in range(7)]},
        "tiny_qwen3_moe": {"mlp_only_layers": []},  # no dense layers
        # windows in three of four layers, of models of 64 layers
        "tiny_exaone4": {"num_hidden_layers": 64, "layer_types": ["full_attention" if i % 4 == 3 else "sliding_attention" for i in range(64)]},
    }
    models = {family: lambda family=family, changes=changes: made_model(check, family, changes) for family, changes in made.items()}
    models["tiny_mixtral"] = lambda: gguf_model(check, "tiny_mixtral", {"sliding_window": None})  # llama.cpp has none for it
    for family in ("tiny_gemma4", "tiny_granite4", "tiny_granitemoe"):
        models[family] = lambda family=family: tiny_model(check, family)
    for family, alpha, targets in (
            ("tiny_qwen3_5", 8, {}), ("tiny_gemma3", 8, {}), ("tiny_exaone4", 8, {}), ("tiny_granite4", 64, {}), ("tiny_granitemoe", 64, {}),
            ("tiny_gemma4", 8, {"exclude_modules": ["per_layer_model_projection"]}),  # llama.cpp multiplies it without adapters
            ("tiny_qwen3_moe", 8, {"target_modules": ATTENTION}), ("tiny_mixtral", 8, {"target_modules": ATTENTION})):
        check.case(f"llama.cpp loads hone's adapter file, {family}", file_of_new_adapter, check, models[family], alpha, targets)
    for family in ("tiny_qwen3_5", "tiny_gemma3", "tiny_gemma4", "tiny_qwen3_moe", "tiny_mixtral"):
        check.case(f"llama.cpp loads hone's merged model, {family}", merged_new_adapter, check, models[family])


def cases(check):
    for family, adapter in (("tiny_llama", "adapter"), ("tiny_llama", "adapter_rslora"), ("tiny_llama3", "adapter_layers"),
                            ("tiny_llama3", "adapter_ends"), ("tiny_qwen3", "adapter"), ("tiny_smollm3", "adapter"),
                            ("tiny_olmo2", "adapter"), ("tiny_qwen3_yarn", "adapter"), ("tiny_lfm2", "adapter"),
                            ("tiny_granite4_nope", "adapter"), ("tiny_exaone4_full", "adapter")):
        check.case(f"llama.cpp loads hone's adapter file, {family}, {adapter}", same_text, check, tiny_model(check, family),
                   FIXTURES / family / adapter, TEXTS[:4], 12)
    check.case("llama.cpp loads hone's merged experts, tiny_olmoe", same_merged_text, check, tiny_model(check, "tiny_olmoe"),
               FIXTURES / "tiny_olmoe/adapter", TEXTS[:4], 12)
    for family, tokens, changes in (  # the eighth token of Gemma 2 is <|endoftext|>, whose name ends a text of llama.cpp
            ("tiny_gemma2", 8, {"query_pre_attn_scalar": 16}), ("tiny_ministral3", 12, {"rope_parameters": {"mscale_all_dim": 1.0}}),
            ("tiny_phi3_short", 12, {"original_max_position_embeddings": 512, "max_position_embeddings": 1024})):
        check.case(f"llama.cpp loads hone's adapter file, {family}", same_text, check, gguf_model(check, family, changes),
                   FIXTURES / family / "adapter", TEXTS[:4], tokens)
    later_cases(check)
