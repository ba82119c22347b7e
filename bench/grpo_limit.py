"""The least that a GRPO step can cost on this machine, from bench_probe's rates and pass counts (docs/benchmarks.md says what is counted)."""
import json
import pathlib


class Limit:
    """`found`: bench_probe's JSON for a pass of 4 x 256 tokens with 1020 scored, which `probe` of setting.py asks for."""

    TOKENS, SCORED = 1024, 1020

    def __init__(self, found, model, recompute="none"):
        counted = found["pass_recompute_layer" if recompute == "layer" else "pass"]
        config = json.loads(pathlib.Path(model, "config.json").read_text(encoding="utf-8"))
        heads = config["num_attention_heads"]
        self.head_dim_all = config["num_hidden_layers"] * heads * (config.get("head_dim") or config["hidden_size"] // heads)
        self.train_token = (counted["layers"] + counted["recompute"]) / self.TOKENS
        self.weights = counted["layers"] / self.TOKENS / 4  # of the layers' matrices
        self.head = counted["head"] / self.SCORED / 4
        self.lora = counted["lora"] / self.TOKENS / 6  # parameters
        self.decode_bytes, self.kv_bytes = found["decode_bytes"], found["kv_bytes_per_token"]
        self.flops, self.reads = found["rates"]["bf16_gflops"] * 1e9, found["rates"]["read_gbs"] * 1e9

    def step(self, prompt, group, new):
        """Seconds: rollout, train and their sum `step`; the same with `_all` count attention, keys and values, and LoRA too. One prompt; every
        completion has `new` tokens."""
        tokens, scored = prompt + group * new, group * new
        train = self.train_token * tokens + 4 * self.head * scored
        prefill = 2 * self.weights * prompt + 2 * self.head
        # The prefill's logits give the first token; each step gives one more of every sequence.
        decode = max(self.decode_bytes / self.reads, 2 * (self.weights + self.head) * group / self.flops) * (new - 1)
        # A prompt's causal half once, its keys once a completion token, a completion's own causal half.
        own = new * (new + 1) / 2
        first = prompt * (prompt + 1) / 2
        pairs = first + group * (new * prompt + own)
        train_all = train + 14 * self.head_dim_all * pairs + 6 * self.lora * tokens
        prefill_all = prefill + 4 * self.head_dim_all * first + 2 * self.lora * prompt
        cached = (prompt + group * new / 2) * self.kv_bytes  # the mean over the steps; a prompt's keys and values are read once for all
        flop = 2 * (self.weights + self.head + self.lora) * group + 4 * self.head_dim_all * group * (prompt + new / 2)
        decode_all = max((self.decode_bytes + 2 * self.lora + cached) / self.reads, flop / self.flops) * (new - 1)
        out = {"rollout": prefill / self.flops + decode, "train": train / self.flops,
               "rollout_all": prefill_all / self.flops + decode_all, "train_all": train_all / self.flops}
        return dict(out, step=out["rollout"] + out["train"], step_all=out["rollout_all"] + out["train_all"])
