"""Runs of TRL's GRPOTrainer, RLOOTrainer and GMPOTrainer on CPU in fp32, for hone to replay: FIXTURES/trl_grpo/<case>.json, <case>.jsonl and
<case>.safetensors. usage: record_trl_grpo.py [--only PREFIX] [--out FOLDER]

TRL samples, scores, shuffles and trains by itself; what it made is read off on the way (Recorder). The model is tiny_llama,
of family_<name> and experts_<name> tiny_<name>, with its adapter, whose B is not zero: a run continues it, and TRL's reference
is a copy of it. So that completions end at
different places, every eighth token ends one (generation_config.eos_token_id).

<case>.jsonl: the generation batches, in hone's form of rollouts (src/train/batches/rollout_batch.h), samples by group as TRL
generated them, `slices` after TRL's shuffle. old_logprobs are there where TRL computes them (RLOO always does), ref_logprobs
where beta is not 0, sampling_logprobs in the importance_* cases: TRL knows the sampler's log-probabilities under vLLM
alone, so there they are the trainer's own and a known noise, put where vLLM's would be.

Of the masked_* cases a part of each completion is given, as by a tool: TRL's rollout_func says so in its env_mask. The case tools is one
of TRL's own tool loops, over turns that are written here instead of sampled. Their gradients are kept of one layer only.

<case>.json: versions; method (grpo, rloo); model, adapter (the PEFT folder the run starts from), data (prompts); options (what
differs from TRL's defaults, in TRL's names; loss_type gmpo is GMPOTrainer); reward_names; steps: one an optimizer step, as logged, unrounded, under
TRL's names. null is TRL's None: NaN everywhere. A metric of the generation batch is logged by the step that generated.

<case>.safetensors: grad.<PEFT key> of the first optimizer step before clipping; after.<PEFT key>, the adapter after the last
step, of the cases whose names end in KEPT."""
import json
import math
import tempfile

from common import FIXTURES, attention_of, peft_key, versions, write_json, write_tensors
from trl_training import case_options

import torch
from datasets import Dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import chat_template_utils, GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.gmpo import GMPOConfig, GMPOTrainer

MODEL = FIXTURES / "tiny_llama"
FAMILIES = ("qwen2_windows", "mistral", "smollm3", "granite", "olmo2", "gemma3", "phi3", "lfm2",
            "gemma2", "gemma", "olmo3", "qwen3_5", "gemma4", "exaone4", "ministral3")  # cases of their own: family_<name>
FOLDER = "trl_grpo"
ENDS = list(range(2, 384, 8))  # 48 of 384 tokens end a completion
KEPT = ("_off", "_gradient", "_gdpo", "kl", "truncated", "uneven", "adaptive", "_none", "rloo")
UNLOGGED = {"step_time", "total_flos", "train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second"}
PROMPTS = ["What is 43 + 21?", "Add 7 and 12.", "Name a colour.", "How many legs has a spider, and how many has an ant?",
           "Is 17 prime?", "Spell the word cat backwards.", "What comes after Tuesday?", "2 * 9 =", "Say something short.",
           "Count from three to nine without the even numbers, please.", "Why?", "Half of 64 is"]
# Of one length: TRL's padding on the left would move the positions, by which Ministral 3 scales its queries.
EVEN_PROMPTS = [f"What is {51 + 4 * i} + {40 + 5 * i}?" for i in range(12)]

# adam_epsilon: with 1e-8 AdamW makes a whole step of a gradient that is only rounding, and later steps differ by 5e-4.
SHARED = dict(bf16=False, per_device_train_batch_size=4, gradient_accumulation_steps=2, num_generations=4,
              max_completion_length=12, learning_rate=5e-3, adam_epsilon=1e-4, max_steps=3)
# 16 completions a generation, 4 slices, 2 optimizer steps a pass and two passes: the ratios leave 1.
OFF = dict(steps_per_generation=4, num_iterations=2, max_steps=5, epsilon=0.05)
TYPES = ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo", "sapo", "vespo"]
TWO = dict(reward_weights=[1.0, 0.5])


def first(completion_ids, **_):
    """Eighths, so that fp32 means of equal rewards are exact: TRL's advantage of a dead group is then 0, not 1e-4."""
    return [(7 * sum(ids) + len(ids)) % 13 / 8 - 0.5 for ids in completion_ids]


def dead_some(completion_ids, row, **_):
    """Every fourth prompt's group teaches nothing."""
    return [0.5 if at % 4 == 3 else value for at, value in zip(row, first(completion_ids))]


def some_none(completion_ids, **_):
    return [None if sum(ids) % 3 == 0 else len(ids) / 8 for ids in completion_ids]


def other_none(completion_ids, **_):
    return [None if sum(ids) % 4 == 0 else sum(ids) % 7 / 4 for ids in completion_ids]


def add(a: int, b: int) -> int:
    """
    Adds two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def half(number: float) -> float:
    """
    Halves a number.

    Args:
        number: The number.
    """
    return number / 2


def policy_cases():
    """name -> (method, options, reward functions)"""
    cases = {}

    def case(name, method="grpo", rewards=(first,), **options):
        cases[name] = (method, {**SHARED, **options}, rewards)

    for one in TYPES:
        case(one, loss_type=one)
        wide = dict(epsilon_high=1.05) if one == "cispo" else {}
        case(f"{one}_off", loss_type=one, **{**OFF, **wide})
    case("gmpo", loss_type="gmpo")
    case("gmpo_off", loss_type="gmpo", beta=0.04, mask_truncated_completions=True, **{**OFF, "epsilon_high": 0.07})
    case("grpo_sequence", loss_type="grpo", importance_sampling_level="sequence")
    case("grpo_sequence_off", loss_type="grpo", importance_sampling_level="sequence", **{**OFF, "epsilon": 0.01})
    case("luspo_sequence_off", loss_type="luspo", importance_sampling_level="sequence", beta=0.04, **OFF)
    case("scale_batch", scale_rewards="batch", temperature=0.9)
    case("scale_none", scale_rewards="none", rewards=(dead_some,), per_device_train_batch_size=10)  # 2 prompts left over
    case("two_rewards", rewards=(some_none, other_none), **TWO)
    case("two_rewards_gdpo", rewards=(some_none, other_none), multi_objective_aggregation="normalize_then_sum", **TWO)
    case("kl", beta=0.04, temperature=0.9)
    case("kl_uncorrected", beta=0.04, use_bias_correction_kl=False)
    case("kl_off", beta=0.04, epsilon_high=0.1, delta=1.1, temperature=0.9, **OFF)
    case("truncated", mask_truncated_completions=True, beta=0.04)
    case("top_entropy", top_entropy_quantile=0.5)
    case("top_entropy_off", top_entropy_quantile=0.3, beta=0.04, entropy_coef=0.02, seed=6, **OFF)
    case("entropy_bonus", entropy_coef=0.01, loss_type="grpo")
    case("entropy_adaptive", use_adaptive_entropy=True, entropy_coef=0.01, entropy_target=5.721, max_steps=6)
    for family in FAMILIES:
        case(f"family_{family}", beta=0.04, max_steps=4)
    for family in ("qwen3_moe", "olmoe", "mixtral", "granitemoe"):
        case(f"family_{family}", beta=0.04, max_steps=4, router_aux_loss_coef=0.0)
    # experts_<family>: with the load-balancing loss of the routers
    case("experts_qwen3_moe", beta=0.04)  # its own factor
    case("experts_olmoe", router_aux_loss_coef=0.5, mask_truncated_completions=True)
    case("experts_mixtral", router_aux_loss_coef=0.5, loss_type="grpo", **OFF)
    case("experts_olmoe_gmpo", loss_type="gmpo", router_aux_loss_coef=0.5)  # of which TRL makes nothing here
    case("experts_qwen3_moe_rloo", method="rloo", router_aux_loss_coef=0.5, steps_per_generation=2)
    case("family_granite4", beta=0.04, max_steps=4, router_aux_loss_coef=0.0)  # otherwise TRL looks for its experts
    case("off_policy_mask", off_policy_mask_threshold=0.01, **OFF)
    case("clipped_gradient", max_grad_norm=0.05, per_device_train_batch_size=2, gradient_accumulation_steps=4,
         weight_decay=0.1, lr_scheduler_type="cosine", warmup_steps=1, max_steps=4)
    case("uneven", loss_type="bnpo", rewards=(dead_some,), per_device_train_batch_size=3, num_generations=3, seed=7,
         gradient_accumulation_steps=4, temperature=0.9, max_steps=5)
    for mode in ("token_mask", "token_truncate", "sequence_mask", "sequence_truncate"):
        loss = "vespo" if mode == "token_truncate" else "dapo"
        case(f"importance_{mode}", vllm_importance_sampling_correction=True, vllm_importance_sampling_mode=mode,
             vllm_importance_sampling_clip_max=1.1, vllm_importance_sampling_clip_min=0.9, loss_type=loss)
    case("importance_off", vllm_importance_sampling_correction=True, off_policy_mask_threshold=0.02, **OFF)
    masked = {**OFF, "max_completion_length": 20}
    for one in TYPES + ["gmpo"]:
        case(f"masked_{one}", loss_type=one, beta=0.04 if one in ("grpo", "gmpo") else 0.0, **masked)
    case("masked_sequence", loss_type="grpo", importance_sampling_level="sequence", **{**masked, "epsilon": 0.01})
    case("masked_entropy", top_entropy_quantile=0.4, entropy_coef=0.02, mask_truncated_completions=True, seed=7, **masked)
    case("tools", max_completion_length=440, max_tool_calling_iterations=2, max_steps=2, beta=0.04)
    plain = dict(steps_per_generation=2)
    case("rloo", method="rloo", **plain)
    case("rloo_off", method="rloo", **{**OFF, "epsilon": 0.15, "learning_rate": 1e-3})
    case("rloo_normalized", method="rloo", normalize_advantages=True, reward_clip_range=[-0.25, 0.75],
         rewards=(some_none, other_none), temperature=0.9, **TWO, **plain)
    case("rloo_truncated", method="rloo", mask_truncated_completions=True, beta=0.1, rewards=(dead_some,), **plain)
    return cases


def digits9(values):
    """fp32 numbers in the 9 digits that hold them."""
    return [float(f"{x:.9g}") for x in values]


class Recorder:
    """Reads a trainer's generation batches and first gradients off on the way; changes nothing but `index`, a row number
    that travels through TRL's shuffle."""

    def __init__(self, trainer, method, sampled, parameters=lambda model: adapter(model)):
        self.trainer, self.method = trainer, method
        self.batches, self.gradients, self.scored = [], {}, []
        wrap = lambda name, how: setattr(trainer, name, how(getattr(trainer, name)))
        wrap("_generate", self.generate)
        wrap("_get_per_token_logps_and_entropies", self.logps)
        wrap("_calculate_rewards", self.rewards)
        wrap("_generate_and_score_completions", self.score)
        wrap("_prepare_inputs", self.prepare)
        if method == "grpo":
            wrap("get_high_entropy_mask", self.threshold)
        if sampled:
            wrap("_generate_single_turn", self.sample)
            trainer.use_vllm = True  # the engine itself is not asked for anything
        clip = trainer.accelerator.clip_grad_norm_
        def clipped(*args, **kwargs):
            if not self.gradients:
                self.gradients = {name: value.grad.clone() for name, value in parameters(trainer.model).items()}
            return clip(*args, **kwargs)
        trainer.accelerator.clip_grad_norm_ = clipped

    def generate(self, inner):
        def wrapped(prompts):
            out = inner(prompts)
            self.now |= dict(prompt_ids=[list(ids) for ids in out[0]], ids=[list(ids) for ids in out[1]], mask=out[2], messages=out[3])
            if self.trainer.__dict__.get("use_vllm"):
                self.now["sampling"] = out[4]
            return out
        return wrapped

    def sample(self, inner):
        """Completions as ever, and log-probabilities as if another program had sampled them: the trainer's and a noise."""
        noise = torch.Generator().manual_seed(5)
        def wrapped(prompt_ids, *args):
            self.trainer.use_vllm = False
            ids, _ = inner(prompt_ids, *args)
            self.trainer.use_vllm = True
            own = []
            for prompt, one in zip(prompt_ids, ids):
                tokens = torch.tensor([list(prompt) + one])
                with torch.no_grad():
                    logps = self.plain_logps(self.trainer.model, tokens, torch.ones_like(tokens), len(one))[0][0]
                off = 0.05 * torch.randn(len(one), generator=noise)
                own.append(digits9((logps + off).tolist()))
            return ids, own
        return wrapped

    def logps(self, inner):
        self.plain_logps = inner
        def wrapped(*args, **kwargs):
            out = inner(*args, **kwargs)
            if self.now is not None:
                self.scored.append(out[0])
            return out
        return wrapped

    def threshold(self, inner):
        """Completions of a prompt begin with the same entropy, but for rounding: a threshold there would be a toss-up."""
        def wrapped(entropies, mask, threshold):
            values = entropies[mask.bool()].sort().values.double()
            gaps = (values - torch.quantile(values, threshold)).abs().sort().values
            self.closest = min(self.closest, gaps[0 if gaps[0] > 1e-6 else 1].item())  # one may be the threshold
            return inner(entropies, mask, threshold)
        return wrapped

    closest = math.inf  # the entropy nearest to a threshold

    def rewards(self, inner):
        def wrapped(*args):
            out = inner(*args)
            self.now["rewards"] = [[None if math.isnan(x) else x for x in digits9(row)] for row in out.tolist()]
            return out
        return wrapped

    now = None

    def score(self, inner):
        def wrapped(inputs):
            self.now, self.scored = {"rows": [one["row"] for one in inputs]}, []
            out = inner(inputs)
            passes = list(self.scored)
            if self.method == "rloo" or "old_per_token_logps" in out:
                self.now["old"] = passes.pop(0)
            if self.trainer.beta != 0:
                self.now["ref"] = passes.pop(0)
            assert not passes
            self.batches.append(self.packed(self.now))
            self.now = None
            out["index"] = torch.arange(len(inputs))
            return out
        return wrapped

    def prepare(self, inner):
        def wrapped(batch):
            before = len(self.batches)
            out = inner(batch)
            if len(self.batches) > before:
                self.batches[-1]["slices"] = [one["index"].tolist() for one in self.trainer._buffered_inputs]
            return out
        return wrapped

    def packed(self, now):
        group = self.trainer.num_generations
        ends = {*self.trainer.eos_token_ids, self.trainer._tokenizer.pad_token_id}
        prompts = [{"row": now["rows"][at], "ids": now["prompt_ids"][at]} for at in range(0, len(now["ids"]), group)]
        samples = []
        for at, ids in enumerate(now["ids"]):
            assert now["prompt_ids"][at] == prompts[at // group]["ids"]
            one = {"prompt": at // group, "ids": ids, "truncated": ids[-1] not in ends, "rewards": now["rewards"][at]}
            mask = now["mask"][at] if now["mask"] else [1] * len(ids)
            for key in ("old", "ref"):
                if key in now:
                    one[f"{key}_logprobs"] = digits9([value for value, drawn in zip(now[key][at, :len(ids)].tolist(), mask) if drawn])
            if now["mask"]:
                one |= {"given": given_of(mask), "messages": None, "calls": calls_of(now["messages"][at])}
            if now.get("sampling"):
                one["sampling_logprobs"] = now["sampling"][at]
            samples.append(one)
        return {"format": "hone-rollouts-2" if now["mask"] else "hone-rollouts-1", "generation": len(self.batches),
                "reward_names": self.trainer.reward_func_names, "prompts": prompts, "samples": samples} | (
                    {"tools": True} if now["mask"] else {})


def given_of(mask):
    """[begin, end) of the zeros."""
    ends = [at for at in range(1, len(mask) + 1) if mask[at - 1] == 0 and (at == len(mask) or mask[at] == 1)]
    return [[max(at for at in range(end) if mask[at] == 0 and (at == 0 or mask[at - 1] == 1)), end] for end in ends]


def calls_of(messages):
    """The calls of a completion with their results; none of a completion that is text."""
    out, turn, waiting = [], -1, []
    for message in messages if isinstance(messages, list) else []:
        if message["role"] == "assistant":
            turn, waiting = turn + 1, [call["function"] for call in message.get("tool_calls", [])]
            continue
        call = waiting.pop(0)
        out.append({"turn": turn, "name": call["name"], "arguments": call["arguments"], "result": message["content"],
                    "failed": message["content"].startswith("{'error'"), "seconds": 0})
    return out


def gives_some(trainer):
    """rollout_func: samples as the trainer does, and puts ids that nobody sampled behind the first ones."""
    random = torch.Generator().manual_seed(11)

    def rollout(prompts, _):
        prompt_ids, *rest = trainer._tokenize_prompts(prompts)
        ids, _logprobs = trainer._generate_single_turn(prompt_ids, *rest, trainer.num_generations)
        completions, masks = [], []
        for one in ids:
            place = 1 + int(torch.randint(len(one), (1,), generator=random))
            given = torch.randint(5, 384, (int(torch.randint(1, 7, (1,), generator=random)),), generator=random).tolist()
            completions.append(one[:place] + given + one[place:])
            masks.append([1] * place + [0] * len(given) + [1] * (len(one) - place))
        return {"prompt_ids": prompt_ids, "completion_ids": completions, "env_mask": masks,
                "logprobs": [[0.0] * len(one) for one in completions]}

    return rollout


class Written:
    """Turns instead of _generate_single_turn: some call a tool, in the right way or not, others answer."""
    TURNS = ['<tool_call>\n{"name": "add", "arguments": {"a": 4, "b": 3}}\n</tool_call>', "It is 7, I think.",
             '<tool_call>\n{"name": "half", "arguments": {"number": "9"}}\n</tool_call>\n'
             '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>', '<tool_call>\n{"name": "sub"}\n</tool_call>', "No.",
             "Then it is so, and a long sentence follows."]

    def __init__(self, trainer):
        self.tokenizer, self.count = trainer._tokenizer, 0

    def __call__(self, prompt_ids, *_, **__):
        ids = []
        for _one in prompt_ids:
            text = self.TURNS[self.count % len(self.TURNS)] + ("<|im_end|>" if self.count % 7 else "")
            ids.append(self.tokenizer.encode(text, add_special_tokens=False))
            self.count += 1
        return ids, None


def adapter(model):
    """{PEFT key: parameter}, without the copy that TRL keeps as reference."""
    return {peft_key(name): value for name, value in model.named_parameters() if "lora_" in name and ".default." in name}


def write_prompts(folder):
    for name, prompts in (("prompts", PROMPTS), ("even_prompts", EVEN_PROMPTS)):
        rows = [json.dumps({"prompt": prompt, "row": row}) for row, prompt in enumerate(prompts)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


def run(name, out):
    method, options, rewards = policy_cases()[name]
    data, prompts = ("even_prompts", EVEN_PROMPTS) if name == "family_ministral3" else ("prompts", PROMPTS)
    family = name.removeprefix("family_").removeprefix("experts_").removesuffix("_rloo").removesuffix("_gmpo")
    base = FIXTURES / f"tiny_{family}" if name.startswith(("family_", "experts_")) else MODEL
    tokenizer = AutoTokenizer.from_pretrained(str(base))
    model = AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32, attn_implementation=attention_of(base))
    model.generation_config.eos_token_id = ENDS
    model = PeftModel.from_pretrained(model, str(base / "adapter"), is_trainable=True)
    config, trainer = (GRPOConfig, GRPOTrainer) if method == "grpo" else (RLOOConfig, RLOOTrainer)
    given = dict(options)
    if given.get("loss_type") == "gmpo":
        config, trainer = GMPOConfig, GMPOTrainer
        del given["loss_type"]
    if "reward_clip_range" in given:
        given["reward_clip_range"] = tuple(given["reward_clip_range"])
    extra = {}
    if name == "tools":
        tokenizer.chat_template = chat_template_utils.qwen2_5_chat_template
        prompts = [[{"role": "user", "content": prompt}] for prompt in prompts]
        extra["tools"] = [add, half]
        model.base_model.model.config.max_position_embeddings = 4096  # the tokenizer has few words: its prompts are long
        model.generation_config.eos_token_id = [tokenizer.convert_tokens_to_ids("<|im_end|>")]
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer(model, list(rewards), train_dataset=Dataset.from_list(
            [{"prompt": prompt, "row": row} for row, prompt in enumerate(prompts)]), processing_class=tokenizer, **extra,
            args=config(output_dir=folder, use_cpu=True, report_to="none", logging_steps=1, disable_tqdm=True,
                        save_strategy="no", **given))
        recorder = Recorder(trainer, method, "vllm_importance_sampling_mode" in options
                            or options.get("vllm_importance_sampling_correction", False))
        trainer.pop_callback(PrinterCallback)
        if name.startswith("masked_"):
            trainer.rollout_func = gives_some(trainer)
        if name == "tools":
            trainer._generate_single_turn = Written(trainer)
        trainer.train()
    lengths = {len(one["ids"]) for batch in recorder.batches for one in batch["prompts"]}
    assert data == "prompts" or len(lengths) == 1, f"{name}: prompts of {sorted(lengths)} tokens"
    steps = [{key: value for key, value in entry.items() if key not in UNLOGGED}
             for entry in trainer.state.log_history if "loss" in entry]
    steps = [{key: None if isinstance(value, float) and math.isnan(value) else value for key, value in step.items()}
             for step in steps]
    assert len(steps) == options["max_steps"]
    samples = [one for batch in recorder.batches for one in batch["samples"]]
    assert recorder.closest > 1e-4, f"{name}: an entropy {recorder.closest} from its threshold; another seed"
    cut = sum(one["truncated"] for one in samples) / len(samples)
    assert 0.05 < cut < 0.6 and len({len(one["ids"]) for one in samples}) > 5, f"{name}: {cut} of the completions are cut"
    write_json(out / FOLDER / f"{name}.json", {
        "versions": versions(), "method": method, "model": str(base), "adapter": str(base / "adapter"),
        "data": str(FIXTURES / FOLDER / f"{data}.jsonl"), "options": options, "reward_names": trainer.reward_func_names,
        "steps": steps})
    lines = [json.dumps(batch, separators=(",", ":")) for batch in recorder.batches]
    (out / FOLDER / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    small = name == "tools" or name.startswith("masked_")
    tensors = {f"grad.{key}": value for key, value in recorder.gradients.items() if not small or "layers.1.self_attn.v_proj" in key}
    if name.endswith(KEPT):
        tensors |= {f"after.{key}": value for key, value in adapter(trainer.model).items()}
    write_tensors(out / FOLDER / f"{name}.safetensors", tensors)
    shown = [f"{key} {[float(f'{step[key]:.3g}') for step in steps if step.get(key) is not None]}" for key in
             ("loss", "grad_norm", "kl", "entropy", "entropy_coef", "clip_ratio/region_mean", "cispo_clip_ratio", "vespo/phi_seq_mean",
              "frac_reward_zero_std", "sampling/importance_sampling_ratio/mean") if steps[-1].get(key, steps[0].get(key)) is not None]
    print(f"{name}: {len(recorder.batches)} generations, cut {cut:.2f}, " + ", ".join(shown), flush=True)


def main():
    arguments = case_options(__doc__, FOLDER)
    out = arguments.out
    write_prompts(out / FOLDER)
    for name in policy_cases():
        if arguments.asked(name):
            run(name, out)


if __name__ == "__main__":
    main()
