#!/usr/bin/env python3
"""Options in pairs: every two options of a method's loss, sampling and pass together, one step of a tiny model.

Options, types and values come from `hone options --method METHOD --json`; a value that the table does not tell stands in VALUES. Each of
a pair has a value other than its default, and what it needs to have an effect (the table's `needs`, and CONTEXT). A run ends with 0 and
a finite loss, or with 2 and a message that names both options; anything else fails, and so does an option that is refused without
another. Many pairs share a run: options are dealt into handfuls by a fixed seed until every pair has been in one, and the pairs of a
handful that is refused or wrong run one by one. Without --slow a few handfuls of each method are run.
Prints `ok METHOD ...` or `not ok METHOD: why`. usage: option_pairs.py [--hone PROGRAM] [--slow] [--method grpo] [--only NAME,NAME]
"""
import argparse
import collections
import concurrent.futures
import itertools
import json
import math
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODEL = SOURCE / "tests/fixtures/parity/tiny_llama"
METHODS = ("sft", "dpo", "kto", "reward", "cpo", "orpo", "grpo", "rloo", "online-dpo")
SAMPLERS = ("grpo", "rloo", "online-dpo")
LIMIT_S = 120
SEED = 40
HANDFUL = 9
GROUPS = ("loss", "sampling", "samples")
# Options of other groups that change what a pass computes.
PASS = """packing packing_strategy eval_packing completion_only_loss assistant_only_loss loss_type max_length truncation_mode
shuffle_dataset max_prompt_length dataloader_drop_last train_sampling_strategy auto_insert_empty_system_msg dataset_streaming
recompute layer_form gradient_checkpointing gradient_accumulation_steps per_device_train_batch_size max_grad_norm optim weight_decay
lr_scheduler_type warmup_steps bf16 dtype use_peft load_in_4bit load_in_8bit use_bnb_nested_quant bnb_4bit_quant_type use_dora use_rslora
lora_dropout lora_target_modules lora_modules_to_save bias trainable_token_indices layers_to_transform rank_pattern init_lora_weights
disable_dropout cast_lm_head_to_fp32 neftune_noise_alpha label_smoothing_factor freeze_embeddings
unfrozen_parameters reward_weights reward_by_group eval_strategy eval_on_start""".split()
# Sizes of the machine, and what is for other models: variables of a template, and experts. A reference that is another model, or moves,
# wants all weights trained or a second model; tests/train/reference_test.cpp and the runs of TRL have those.
LEFT_OUT = {"kv_memory", "chat_template_kwargs", "ref_model", "ref_model_dtype", "sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps"}
# option -> values, where the table has a type only, or where the next number is not a valid one.
VALUES = {
    "loss_weights": [[0.5]], "beta": [0.3], "epsilon_high": [0.3], "delta": [1.2], "ld_alpha": [0.5], "reward_clip_range": [[-1, 1]],
    "top_entropy_quantile": [0.5], "label_smoothing": [0.1], "label_smoothing_factor": [0.1], "neftune_noise_alpha": [5],
    "num_generations": [4], "num_generations_eval": [4], "generation_batch_size": [16], "steps_per_generation": [2], "num_iterations": [2],
    "max_completion_length": [6], "max_new_tokens": [6], "temperature": [0.7], "top_p": [0.8], "top_k": [20], "min_p": [0.05],
    "repetition_penalty": [1.2], "generation_kwargs": [{"min_new_tokens": 2}], "max_length": [56], "max_prompt_length": [6],
    "vllm_structured_outputs_regex": ["[a-z ]*"], "max_grad_norm": [0.01, 0], "lora_dropout": [0.1], "weight_decay": [0.1],
    "lora_target_modules": [["q_proj", "down_proj"]], "lora_modules_to_save": [["lm_head"]], "trainable_token_indices": [[5, 9]],
    "layers_to_transform": [[1]], "rank_pattern": [{"q_proj": 2}], "unfrozen_parameters": [["model.layers.1"]],
    "reward_weights": [[1.0, 0.5]], "gradient_accumulation_steps": [2], "per_device_train_batch_size": [4], "warmup_steps": [1],
    "off_policy_mask_threshold": [0.1], "entropy_coef": [0.01], "entropy_target": [1.0],
    "vllm_importance_sampling_clip_max": [1.5], "vllm_importance_sampling_clip_min": [0.5], "vllm_importance_sampling_cap": [2.0],
    "missing_eos_penalty": [1.0], "center_rewards_coefficient": [0.01], "precompute_ref_batch_size": [1], "sample_prompts": [["Hello"]],
    "sample_steps": [1], "sample_max_new_tokens": [4], "eval_reward_funcs": [["repetition_penalty"]], "eval_reward_rows": [2],
    "replay": ["{rollouts}"], "lr_scheduler_type": ["cosine"], "optim": ["adafactor", "adamw_bnb_8bit"], "eval_strategy": ["steps"],
    "simpo_gamma": [0.7], "gamma_beta_ratio": [0.4], "cpo_alpha": [0.5], "alpha": [0.2], "f_alpha_divergence_coef": [0.3],
    "init_lora_weights": ["gaussian", "pissa"], "reward_workers": [2], "reward_timeout": [50],
    "max_num_gen_batches": [2],
}
# dpo's loss_type is a list of words, which the table names in its meaning.
DPO_LOSSES = """hinge ipo exo_pair nca_pair robust bco_pair sppo_hard aot aot_unpaired apo_zero apo_down discopop sft
sigmoid_norm""".split()
EVALUATES = {"eval_strategy": "steps", "eval_steps": 1}
SCORES = {"eval_reward_funcs": ["repetition_penalty"], **EVALUATES}
SAMPLES = {"sample_prompts": ["Hello"]}
FOUR_BITS = {"load_in_4bit": True}
FULL = {"use_peft": False}
MARKED = ("{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}"
          "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}")
CORRECTED = {"vllm_importance_sampling_correction": True}
TOKEN_WEIGHTS = {"vllm_importance_sampling_mode": "token_truncate"}
# What an option needs to have an effect, beside the table's `needs`; what the other of a pair says comes before it.
CONTEXT = {
    "vllm_importance_sampling_mode": CORRECTED,
    **{f"vllm_importance_sampling_{name}": CORRECTED | TOKEN_WEIGHTS for name in ("clip_max", "clip_min", "cap")},
    "packing_strategy": {"packing": True}, "use_bnb_nested_quant": FOUR_BITS, "bnb_4bit_quant_type": FOUR_BITS,
    "unfrozen_parameters": FULL, "freeze_embeddings": FULL, "sample_steps": SAMPLES, "sample_max_new_tokens": SAMPLES,
    "eval_reward_rows": SCORES, "reward_timeout": SCORES, "reward_workers": SCORES, "eval_reward_funcs": EVALUATES,
    "num_generations_eval": EVALUATES, "eval_packing": EVALUATES, "eval_strategy": {"eval_steps": 1},
    "use_adaptive_entropy": {"entropy_coef": 0.01}, "use_bias_correction_kl": {"beta": 0.1, "num_iterations": 2},
    "assistant_only_loss": {"chat_template": MARKED}, "layers_to_transform": {"lora_target_modules": ["q_proj", "v_proj"]},
}
# What one value of an option needs.
VALUE_CONTEXT = {("loss_type", "exo_pair"): {"label_smoothing": 0.1},
                 ("train_sampling_strategy", "random"): {"loss_type": "apo_zero_unpaired"}}  # of kto


def turn(role, content):
    return {"role": role, "content": content}


def write_data(folder):
    """{method: its rows}."""
    sums = [(a, a + 3) for a in range(1, 17)]
    question = [[turn("user", f"What is {a} + 3?")] for a, _ in sums]
    answer = [[turn("assistant", f"It is {b}, of course.")] for _, b in sums]
    other = [[turn("assistant", "No." if b % 2 else "I would not know that now.")] for _, b in sums]
    triples = list(zip(question, answer, other))
    pairs = [{"prompt": q, "chosen": a, "rejected": o} for q, a, o in triples]
    rows = {
        "sft": [{"prompt": q, "completion": a} for q, a, _ in triples],
        **{method: pairs for method in ("dpo", "reward", "cpo", "orpo")},
        "kto": [{"prompt": q, "completion": a if i % 2 else o, "label": bool(i % 2)} for i, (q, a, o) in enumerate(triples)],
        **{method: [{"prompt": q, "solution": f"$ {b} $"} for q, (_, b) in zip(question, sums)] for method in SAMPLERS},
    }
    out = {}
    for method, lines in rows.items():
        out[method] = folder / f"{method}.jsonl"
        out[method].write_text("".join(json.dumps(line) + "\n" for line in lines))
    return out


def base_options(method, places, output):
    out = {"model_name_or_path": str(MODEL), "dataset_name": str(places[method]), "eval_dataset": str(places[method]), "output_dir": str(output),
           "max_steps": 1, "per_device_train_batch_size": 2, "per_device_eval_batch_size": 4, "threads": 1, "use_peft": True, "lora_r": 4,
           "learning_rate": 1e-4, "skip_doctor": True, "report_page": False, "save_strategy": "no", "logging_steps": 1}
    if method not in SAMPLERS:
        return out | {"max_length": 64}
    out |= {"reward_funcs": ["repetition_penalty", "soft_overlong_punishment"], "repetition_n_grams": 1, "max_completion_len": 12,
            "soft_punish_cache": 8, "probe_rewards": False}
    if method == "online-dpo":
        return out | {"max_new_tokens": 8, "max_length": 64}
    return out | {"max_completion_length": 8, "per_device_train_batch_size": 8, "per_device_eval_batch_size": 8,
                  "num_generations": 2 if method == "rloo" else 8}


def values_of(row, method):
    name = row["name"]
    if name == "loss_type" and method == "dpo":
        return [*DPO_LOSSES, ["sigmoid", "sft"]]
    if name == "lora_modules_to_save" and method == "reward":
        return [["score"]]
    if name == "per_device_train_batch_size" and method in ("grpo", "rloo"):
        return [16]
    if name in VALUES:
        return [value for value in VALUES[name] if value != row["default"]]
    if row["type"] == "bool":
        return [True] if row["default"] is None else [not row["default"]]
    if row["type"] == "choice":
        return [value for value in row["values"] if value != row["default"] and not value.endswith("_N")]
    if row["type"] in ("int", "float") and row["default"] is not None:
        return [row["default"] * 2 if row["default"] else 1]
    return []


def table(hone, method):
    """(items, names without a value): an item is (name, value, what it needs)."""
    shown_table = subprocess.run([hone, "options", "--method", method, "--json"], capture_output=True, text=True, check=True).stdout
    rows = json.loads(shown_table)
    known = {row["name"] for row in rows}
    items, without = [], []
    for row in rows:
        name = row["name"]
        if row["class"] != "supported" or name in LEFT_OUT or not (row["group"] in GROUPS or name in PASS):
            continue
        needs = {}
        if "needs" in row:
            needs[row["needs"]["option"]] = True if row["needs"]["values"] == ["true"] else row["needs"]["values"][0]
        needs |= {key: value for key, value in CONTEXT.get(name, {}).items() if key in known}
        values = values_of(row, method)
        without += [] if values else [name]
        items += [(name, value, needs | VALUE_CONTEXT.get((name, str(value)), {})) for value in values]
    return items, without


def what_is_wrong(folder):
    """Of the numbers of a run, or ""."""
    log = folder / "metrics.jsonl"
    if not log.is_file():
        return "no metrics.jsonl"
    losses = [record["loss"] for record in map(json.loads, log.read_text().splitlines()) if "loss" in record]
    if not losses:
        return "no loss was logged"
    bad = [loss for loss in losses if not isinstance(loss, (int, float)) or not math.isfinite(loss)]
    return f"loss {bad[0]}" if bad else ""


class Tries:
    def __init__(self, hone, places, root):
        self.hone, self.places, self.root = hone, places, root
        self.counter = itertools.count()

    def run(self, method, items):
        """("ran" | "refused" | "wrong", message)."""
        folder = self.root / f"{method}-{next(self.counter)}"
        folder.mkdir()
        options = base_options(method, self.places, folder / "out")
        for _, _, needs in items:
            options |= needs
        options |= {name: value for name, value, _ in items}
        if options.get("replay") == "{rollouts}":
            options["replay"] = str(self.places["rollouts"])
        (folder / "run.json").write_text(json.dumps(options))
        try:
            done = subprocess.run([self.hone, method, "--config", "run.json"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=LIMIT_S, check=False)
            code, told = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            code, told = -1, f"no end within {LIMIT_S} s"
        wrong = what_is_wrong(folder / "out") if code == 0 else ""
        shutil.rmtree(folder)
        if code == 0 and not wrong:
            return "ran", ""
        if code == 2:
            return "refused", told
        return "wrong", wrong or f"exit {code}: {last_words(told)}"


def shown(items):
    return ", ".join(f"{name}: {json.dumps(value)}" for name, value, _ in items)


def names_both(told, items):
    """Whether the refusal names each option, or what it needs."""
    return all(any(re.search(rf"\b{word}\b", told) for word in (name, *needs)) for name, _, needs in items)


def last_words(told):
    return " | ".join(line.strip() for line in told.strip().splitlines()[-6:])


def agree(one, other):
    """Whether both can have their effect: they are two options, and neither says otherwise what the other needs."""
    says = {**one[2], one[0]: one[1]}
    return one[0] != other[0] and all(says.get(name, value) == value for name, value in {**other[2], other[0]: other[1]}.items())


class Method:
    def __init__(self, tries, name, items):
        self.tries, self.name, self.items = tries, name, items
        self.count = collections.Counter()
        self.reasons = collections.Counter()
        self.refused = set()  # pairs of indices
        self.wrong = []
        self.chance = random.Random(f"{SEED} {name}")

    def fail(self, what):
        self.wrong.append(what)
        print(f"not ok {self.name}: {what}", flush=True)

    def hand_of(self, indices):
        return [self.items[index] for index in indices]

    def singles(self, pool):
        """Without another, every option runs: only pairs may be refused."""
        for item, (result, told) in zip(self.items, pool.map(lambda item: self.tries.run(self.name, [item]), self.items)):
            if result != "ran":
                self.fail(f"{shown([item])} without another: {last_words(told)}")

    def try_pairs(self, pool, pairs):
        """Each pair in a run of its own."""
        for pair, (result, told) in zip(pairs, pool.map(lambda pair: self.tries.run(self.name, self.hand_of(pair)), pairs)):
            items = self.hand_of(pair)
            if result == "refused" and not names_both(told, items):
                result, told = "wrong", "refused without a name of each: " + last_words(told)
            self.count[result] += 1
            if result == "wrong":
                self.fail(f"{shown(items)}: {told}")
            if result == "refused":
                self.refused.add(pair)
                self.reasons[" / ".join(sorted(name for name, _, _ in items))] += 1

    def fits(self, hand, index):
        return all(agree(self.items[index], self.items[other]) and (min(index, other), max(index, other)) not in self.refused
                   for other in hand)

    def deal(self, left):
        """A handful that holds many of the pairs that are left."""
        hand = list(self.chance.choice(sorted(left)))
        order = self.chance.sample(range(len(self.items)), len(self.items))
        while len(hand) < HANDFUL:
            fitting = [index for index in order if index not in hand and self.fits(hand, index)]
            gain = {index: sum((min(index, other), max(index, other)) in left for other in hand) for index in fitting}
            best = max(fitting, key=gain.get, default=None)
            if best is None or gain[best] == 0:
                break
            hand.append(best)
        return sorted(hand)

    def settle(self, pool, hand, result, told, left):
        """What the run of a handful says of its pairs."""
        pairs = [pair for pair in itertools.combinations(hand, 2) if pair in left]
        if result == "ran":
            self.count["ran"] += len(pairs)
            left.difference_update(pairs)
            return
        every = list(itertools.combinations(hand, 2))
        if result == "refused" and self.refused.intersection(every):
            return  # another handful of the same deal found that pair; what is left is dealt again
        named = [pair for pair in every if result == "refused" and names_both(told, self.hand_of(pair))]
        known = len(self.refused) + len(self.wrong)
        for tried in (named, [pair for pair in every if pair not in named]):
            fresh = [pair for pair in tried if pair in left]
            self.try_pairs(pool, fresh)
            left.difference_update(fresh)
            if len(self.refused) + len(self.wrong) > known:
                return
        together = sorted(item[0] for item in self.hand_of(hand) if names_both(told, [item]))
        if result == "refused" and len(together) > 2:
            self.reasons[" / ".join(together)] += 1  # of three or more, each pair of which runs
            return
        self.fail(f"{shown(self.hand_of(hand))}: {last_words(told)}")

    def cover(self, pool, count, only=()):
        """Runs of handfuls until every pair has been in one, or `count` of them."""
        indices = [pair for pair in itertools.combinations(range(len(self.items)), 2)
                   if not only or {self.items[at][0] for at in pair} & set(only)]
        left = {pair for pair in indices if agree(*self.hand_of(pair))}
        if not count:  # two that cannot both have an effect: a note, or a refusal
            self.try_pairs(pool, [pair for pair in indices if pair not in left and self.items[pair[0]][0] != self.items[pair[1]][0]])
        runs = 0
        while left and (not count or runs < count):
            hands = [self.deal(left) for _ in range(min(count, 8) or 8)]
            runs += len(hands)
            for hand, (result, told) in zip(hands, pool.map(lambda hand: self.tries.run(self.name, self.hand_of(hand)), hands)):
                self.settle(pool, hand, result, told, left)

    def report(self):
        told = f"{len(self.items)} options and values, {self.count['ran']} pairs ran, {self.count['refused']} are refused"
        print(f"   {self.name}: {told}, {self.count['wrong']} are wrong" if self.wrong else f"ok {self.name}: {told}")
        for pair, count in self.reasons.most_common():
            print(f"   refused {count}: {pair}")
        sys.stdout.flush()


def dump_rollouts(hone, method, places, root):
    options = base_options(method, places, root / f"{method}-dump") | {"dump_rollouts": True}
    (root / "dump.json").write_text(json.dumps(options))
    subprocess.run([hone, method, "--config", str(root / "dump.json")], capture_output=True, check=True, text=True)
    places["rollouts"] = root / f"{method}-dump/rollouts.jsonl"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default=str(SOURCE / "build/hone"))
    parser.add_argument("--slow", action="store_true", help="every pair")
    parser.add_argument("--method", default=",".join(METHODS))
    parser.add_argument("--only", default="", help="pairs of these options with all others")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    hone = str(pathlib.Path(arguments.hone).resolve())
    failed = False
    with tempfile.TemporaryDirectory(prefix="hone-pairs-") as made, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        root = pathlib.Path(made)
        places = write_data(root)
        tries = Tries(hone, places, root)
        for name in arguments.method.split(","):
            if name in SAMPLERS:
                dump_rollouts(hone, name, places, root)
            items, without = table(hone, name)
            method = Method(tries, name, items)
            if without:
                method.fail(f"no value to try for {', '.join(without)}: write it into VALUES")
            if arguments.slow:
                method.singles(pool)
            only = [word for word in arguments.only.split(",") if word]
            method.cover(pool, 0 if arguments.slow or only else 3, only)
            method.report()
            failed = failed or bool(method.wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
