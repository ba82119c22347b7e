"""The runs of run.py: options of the rows of runs.md, and the runs that only have to pass libtorch's checks.

{MODELS}: checkpoints.py's folder; {FIXTURES}: tests/fixtures/parity; {OUT}: a folder of the run's own."""
import dataclasses
import pathlib

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures/parity"
STEPS = 3
HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Run:
    words: list
    slow: bool = False
    own: bool = False  # with hone's own kernels
    graphs: bool = False  # a token of the sampler as a graph


@dataclasses.dataclass
class Case:
    name: str
    words: list
    slow: bool = False
    steps: int = 2
    fails: str = ""  # what its error has; empty: it has to pass
    why: str = ""    # it fails


def words_of(method, model, data, steps, options):
    common = {"model_name_or_path": model, "dataset_name": data, "output_dir": "{OUT}", "max_steps": steps, "bf16": "true", "threads": 1,
              "logging_steps": 1, "save_strategy": "no", "report_page": "false"}
    out = ["train", method]
    for key, value in (common | options).items():
        out += [f"--{key}", *(value if isinstance(value, list) else [value])]
    return out


# ---- the rows of runs.md
LORA = {"use_peft": "true", "lora_target_modules": "all-linear", "lora_dropout": 0}
EIGHT = {"per_device_train_batch_size": 8, "max_length": 1024}
FOUR = {"per_device_train_batch_size": 4, "max_length": 2048}
REWARD = "length(target=6)"
# Tokens that no kernel has drawn are all the same, and completions of one reward have nothing to learn from each other.
DIFFERENT = f"{HERE / 'rewards.py'}:by_place"


def of_shape(method, model, data, options):
    return words_of(method, f"{{MODELS}}/{model}", f"{{MODELS}}/{data}.jsonl", STEPS, options)


def unsaved(words, last=STEPS):
    """A run that leaves after a step, before it writes its weights: a disk that is nearly full is enough for it."""
    return ["train", "--leave", last, *words[1:]]


ROWS = {
    "sft lora 0.5b 8x1024": Run(of_shape("sft", "qwen2.5-0.5b", "long", LORA | EIGHT)),
    "sft lora dropout 0.5b 8x1024": Run(of_shape("sft", "qwen2.5-0.5b", "long", LORA | EIGHT | {"lora_dropout": 0.05})),
    "sft nf4 0.5b 8x1024": Run(of_shape("sft", "qwen2.5-0.5b", "long", LORA | EIGHT | {"load_in_4bit": "true"})),
    "sft full 0.5b 8x1024": Run(unsaved(of_shape("sft", "qwen2.5-0.5b", "long", EIGHT))),
    "sft lora 0.5b 8 uneven": Run(of_shape("sft", "qwen2.5-0.5b", "uneven", LORA | EIGHT | {"max_steps": 8})),
    "dpo lora 0.5b 4x512": Run(of_shape("dpo", "qwen2.5-0.5b", "pairs", LORA | {"per_device_train_batch_size": 4, "max_length": 512})),
    # The recipe of the founding reports: LoRA, gradient checkpointing, bf16, batch 16, 8 completions.
    "grpo founding 0.5b 16x64": Run(of_shape("grpo", "qwen2.5-0.5b", "prompts", {
        "use_peft": "true", "gradient_checkpointing": "true", "per_device_train_batch_size": 16, "num_generations": 8,
        "max_completion_length": 64, "reward_funcs": DIFFERENT})),
    # 64 prompts, 8 samples of each: a step's logits are 0.3 GB, and a graph has as much again.
    "grpo 0.5b 512x64 graphs": Run(unsaved(of_shape("grpo", "qwen2.5-0.5b", "prompts", LORA | {
        "per_device_train_batch_size": 64, "gradient_accumulation_steps": 8, "num_generations": 8, "max_completion_length": 64,
        "reward_funcs": DIFFERENT})), own=True, graphs=True),
    "sft lora 0.5b 8x1024 own": Run(of_shape("sft", "qwen2.5-0.5b", "long", LORA | EIGHT), own=True),
    "sft lora dropout 0.5b 8x1024 own": Run(of_shape("sft", "qwen2.5-0.5b", "long", LORA | EIGHT | {"lora_dropout": 0.05}), own=True),
    "sft full 0.5b 8x1024 own": Run(unsaved(of_shape("sft", "qwen2.5-0.5b", "long", EIGHT)), own=True),
    "sft lora 1.5b 4x2048": Run(of_shape("sft", "qwen2.5-1.5b", "long", LORA | FOUR)),
    "sft lora 8b 4x2048": Run(of_shape("sft", "qwen3-8b", "long", LORA | FOUR), slow=True),
    # All of 16 GB of weights and 16 GB of moments.
    "sft full 8b 1x2048": Run(unsaved(of_shape("sft", "qwen3-8b", "long", {
        "per_device_train_batch_size": 1, "max_length": 2048, "optim": "adamw_8bit"})), slow=True),
    # 64 prompts, 8 samples of each, 640 tokens: keys of 48 GB.
    "grpo 8b 512x640 own": Run(unsaved(of_shape("grpo", "qwen3-8b", "prompts", LORA | {
        "gradient_checkpointing": "true", "per_device_train_batch_size": 8, "gradient_accumulation_steps": 64, "num_generations": 8,
        "max_completion_length": 640, "reward_funcs": DIFFERENT}), 2), slow=True, own=True),
    "sft lora moe 7b 8x1024": Run(of_shape("sft", "olmoe-1b-7b", "long", LORA | EIGHT), slow=True),
    "decode moe 7b batch 8": Run(["decode", "{MODELS}/olmoe-1b-7b", "8", "--tokens", "4,8"], slow=True),
    "decode 0.5b batch 8": Run(["decode", "{MODELS}/qwen2.5-0.5b", "8", "--tokens", "4,8"]),
    "decode 0.5b batch 256": Run(["decode", "{MODELS}/qwen2.5-0.5b", "256", "--tokens", "4,8"]),
    # Of 256 prompts, which are read in pieces, the last one has its first token when the first one has eight.
    "decode 0.5b batch 8 own": Run(["decode", "{MODELS}/qwen2.5-0.5b", "8", "--tokens", "20,40"], own=True),
    "decode 0.5b batch 256 own": Run(["decode", "{MODELS}/qwen2.5-0.5b", "256", "--tokens", "20,40"], own=True),
    "decode 0.5b batch 8 graphs": Run(["decode", "{MODELS}/qwen2.5-0.5b", "8", "--tokens", "20,40"], own=True, graphs=True),
    "decode 0.5b batch 256 graphs": Run(["decode", "{MODELS}/qwen2.5-0.5b", "256", "--tokens", "20,40"], own=True, graphs=True),
    # All prompts are read at once, so that all sequences have a new page at one step, and end at one step.
    "decode 0.5b batch 300 together graphs": Run(["decode", "{MODELS}/qwen2.5-0.5b", "300", "--prompt", "6", "--tokens", "20,84"], own=True, graphs=True),
}


# ---- runs of tiny models
def tiny(method, data, options, model="tiny_llama"):
    return words_of(method, f"{{FIXTURES}}/{model}", f"{{FIXTURES}}/{data}", 2, options)


TWO = {"per_device_train_batch_size": 2}
GROUPS = {"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 6, "reward_funcs": REWARD}
METHODS = {
    "sft": ("sft", "sft/text.jsonl", TWO),
    "dpo": ("dpo", "trl_dpo/explicit.jsonl", TWO),
    "kto": ("kto", "trl_kto/rows.jsonl", TWO),
    "cpo": ("cpo", "trl_cpo/explicit.jsonl", TWO),
    "orpo": ("orpo", "trl_orpo/explicit.jsonl", TWO),
    "reward": ("reward", "trl_reward/explicit.jsonl", TWO),
    "grpo": ("grpo", "trl_grpo/prompts.jsonl", GROUPS),
    "rloo": ("rloo", "trl_grpo/prompts.jsonl", GROUPS),
    "online-dpo": ("online-dpo", "trl_grpo/prompts.jsonl",
                   {"per_device_train_batch_size": 4, "max_new_tokens": 6, "reward_funcs": REWARD}),
}
# The same methods with more around them.
FORMS = {
    "recompute": ("sft", "sft/text.jsonl", TWO | {"recompute": "layer"}),
    "layers in autograd": ("sft", "sft/text.jsonl", TWO | {"layer_form": "plain"}),
    "dropout": ("sft", "sft/text.jsonl", TWO | {"lora_dropout": 0.1}),
    "dora": ("sft", "sft/text.jsonl", TWO | {"use_dora": "true"}),
    "token rows": ("sft", "sft/text.jsonl", TWO | {"trainable_token_indices": ["224", "3", "25"]}),
    "whole modules": ("sft", "sft/text.jsonl", TWO | {"lora_modules_to_save": ["lm_head", "embed_tokens", "norm"]}),
    "frozen adapter": ("sft", "sft/text.jsonl", TWO | {"base_adapters": "{FIXTURES}/tiny_llama/adapter"}),
    "accumulation": ("sft", "sft/text.jsonl", TWO | {"gradient_accumulation_steps": 2}),
    "evaluation with samples": ("sft", "sft/prompt_completion.jsonl", TWO | {
        "eval_dataset": "{FIXTURES}/sft/prompt_completion.jsonl", "eval_strategy": "steps", "eval_steps": 1, "sample_prompts": 3,
        "sample_steps": 1, "sample_max_new_tokens": 6, "eval_reward_rows": 3, "eval_reward_funcs": REWARD}),
    "grpo with everything": ("grpo", "trl_grpo/prompts.jsonl", GROUPS | {
        "beta": 0.1, "entropy_coef": 0.01, "top_entropy_quantile": 0.5, "num_iterations": 2}),
    "grpo with a reward model": ("grpo", "trl_grpo/prompts.jsonl", GROUPS | {"reward_funcs": "{FIXTURES}/rewards/tiny_reward"}),
    "fp32": ("sft", "sft/text.jsonl", TWO | {"bf16": "false", "dtype": "float32"}),
    "all in bf16": ("sft", "sft/text.jsonl", TWO | {"dtype": "bfloat16"}),
}
OPTIMIZERS = ("adamw_torch", "adamw_bnb_8bit", "lion_32bit", "lion_8bit", "adafactor", "rmsprop", "adagrad", "sgd")
BASES = {"4-bit": {"load_in_4bit": "true"}, "4-bit nested": {"load_in_4bit": "true", "use_bnb_nested_quant": "true"},
         "fp4": {"load_in_4bit": "true", "bnb_4bit_quant_type": "fp4"}, "8-bit": {"load_in_8bit": "true"}}
# Each is a family or a form of one. Those without a tokenizer, and the two quantized ones, have got one of letters.
FAMILIES = sorted(path.name for path in FIXTURES.glob("tiny_*"))

# Mixtures, whose experts' rows only the card counts. A LoRA on all linears is on their experts too, but of Granite's.
MIXTURES = ("granitemoe", "mixtral", "olmoe", "qwen3_moe")
MIXED = {"with a lora": LORA, "in 4 bits": LORA | {"load_in_4bit": "true", "quantize_moe_experts": "true"},
         "recomputed": LORA | {"recompute": "layer"}, "in fp32": LORA | {"bf16": "false", "dtype": "float32"}}

# What cannot pass: name -> (what its error has, why).
EXPECTED = {}


def of_family(name, options):
    named = (FIXTURES / name / "tokenizer.json").exists()
    model, data = (f"{{FIXTURES}}/{name}", "{FIXTURES}/sft/text.jsonl") if named else (f"{{MODELS}}/{name}", "{MODELS}/short.jsonl")
    return words_of("sft", model, data, 2, TWO | options), model


def all_cases():
    out = []
    for kind, rows in (("method", METHODS), ("form", FORMS)):
        for name, (method, data, options) in rows.items():
            out.append(Case(f"{kind} {name}", tiny(method, data, LORA | options)))
    for optimizer in OPTIMIZERS:
        out.append(Case(f"optimizer {optimizer}", tiny("sft", "sft/text.jsonl", TWO | {"optim": optimizer})))
    for name, options in BASES.items():
        out.append(Case(f"base {name}", tiny("sft", "sft/text.jsonl", LORA | TWO | options)))
    out.append(Case("base gguf", words_of("sft", "{MODELS}/tiny.gguf", "{FIXTURES}/sft/text.jsonl", 2, LORA | TWO)))
    for name in MIXTURES:
        for form, options in MIXED.items():
            out.append(Case(f"experts {name} {form}", of_family(f"tiny_{name}", options)[0]))
    for family in FAMILIES:
        lora, model = of_family(family, LORA)
        out.append(Case(f"family {family}", lora, slow=True))
        if not family.endswith(("_int8", "_nf4")):  # a quantized base is frozen
            out.append(Case(f"family {family} in full", of_family(family, {})[0], slow=True))
        few = ["--prompt", "9", "--tokens", "2,4"]
        if family == "tiny_phi3_long":  # five positions
            few = ["--prompt", "2", "--tokens", "1,3"]
        out.append(Case(f"family {family} decodes", ["decode", model, "2", *few], slow=True, steps=0))
    for case in out:
        case.fails, case.why = EXPECTED.get(case.name, ("", ""))
    return out
