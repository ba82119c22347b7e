#!/usr/bin/env python3
"""SFT and GRPO with LoRA, hone and TRL, held to each level of instructions in turn: seconds a step, tokens a second, peak memory.

usage: bench/levels.py --model FOLDER --out bench/results/NAME.md [--levels avx2,avx512,avx512_bf16,amx] [--rounds 2] [--steps 3] [--quick]
hone runs in bf16 and in float32, TRL in the precision that is faster there: float32 where the processor has no products of bf16.
SFT: 4 rows of 256 tokens. GRPO: prompt 32, group 8, 64 new tokens. LoRA of rank 16 on all linear layers. In a round every
configuration runs once, so that a slow minute of the machine meets all of them; the best round counts, and all are listed.
Needs build/hone and tests/parity/setup's environment. Run it on an idle machine.
"""
import argparse
import pathlib
import tempfile

import beside_trl
import grpo_beside_trl
from chart import bars
from setting import LEVELS, setting, table

SFT, GRPO = 4 * 256, 8 * 64  # tokens of a step: trained; sampled


def configurations(levels):
    """(who, level, float32): TRL in bf16 only where its products are the processor's own."""
    for level in levels:
        yield "hone", level, False
        if level in ("avx2", "avx512"):
            yield "hone", level, True
        yield "TRL", level, level in ("avx2", "avx512")


def measure(a, temporary, results):
    data = f"{temporary}/sft.jsonl"
    beside_trl.rows(data, 256)
    common = dict(model=a.model, threads=a.threads, steps=a.steps, checkpointing=False, recompute="none", layer_form="auto")
    sft = dict(common, data=data, batch=4, length=256)
    grpo = dict(common, prompt=32, group=8, completion=64, rewards=temporary, data=f"{temporary}/grpo.jsonl")
    pathlib.Path(temporary, "letters_reward.py").write_text(grpo_beside_trl.REWARD, encoding="utf-8")
    grpo_beside_trl.rows(grpo)
    for number in range(a.rounds):
        for who, level, float32 in configurations(a.levels):
            for method, module, o in (("sft", beside_trl, sft), ("grpo", grpo_beside_trl, grpo)):
                if method == "grpo" and who == "hone" and float32:
                    continue
                run = module.hone if who == "hone" else module.trl
                o = dict(o, level=level, float32=float32, float32_weights=float32)
                one = run(o, f"{temporary}/{who}-{level}-{float32}-{method}{number}")
                results.setdefault((method, who, level, float32), []).append(one)
                print(f"{method} {who} {level} {'float32' if float32 else 'bf16'}: {one['seconds']:.2f} s, {one['peak_mb']:.0f} MB", flush=True)
                a.out.write_text(report(a, results), encoding="utf-8")  # what there is, should the next one fail


def best(results, method, who, level):
    """The fastest round of that program's faster precision: (seconds, peak MB, precision), or None."""
    found = [(one["seconds"], one["peak_mb"], "float32" if key[3] else "bf16") for key, runs in results.items()
             if key[:3] == (method, who, level) for one in runs]
    return min(found) if found else None


def report(a, results):
    lines = [f"# SFT and GRPO at each level of instructions, {pathlib.Path(a.model).name}, {a.threads} threads: hone beside TRL", "",
             f"LoRA r 16 all-linear. SFT: batch 4 x 256, recompute none. GRPO: prompt 32, group 8, 64 new tokens. {a.rounds} rounds of {a.steps} steps, "
             "the first step left out; all programs in turn. Both held to the level, libtorch too.", "", *a.said, ""]
    body = []
    for (method, who, level, float32), runs in sorted(results.items(), key=lambda item: (item[0][0], a.levels.index(item[0][2]), item[0][1], item[0][3])):
        seconds = min(one["seconds"] for one in runs)
        tokens = SFT if method == "sft" else GRPO
        body.append([f"{method} {level}", who, "float32" if float32 else "bf16", f"{seconds:.2f}", f"{tokens / seconds:.0f}",
                     f"{max(one['peak_mb'] for one in runs):.0f}", " ".join(f"{one['seconds']:.2f}" for one in runs)])
    lines += table(["method and level", "who", "precision", "best s a step", "tokens/s", "MB", "each round"], body)
    lines += ["", "hone's bf16 to TRL's best:", ""]
    for method in ("sft", "grpo"):
        for level in a.levels:
            ours, theirs = best(results, method, "hone", level), best(results, method, "TRL", level)
            if ours and theirs:
                lines.append(f"- {method}, {level}: {theirs[0] / ours[0]:.1f} times, {ours[1] / theirs[1]:.2f} of the memory ({ours[2]} beside {theirs[2]})")
    lines += ["", "Tokens/s of SFT are trained tokens, of GRPO sampled ones over the whole step. MB is VmHWM of the main process.", "",
              f"`bench/levels.py --model {pathlib.Path(a.model).name} --levels {','.join(a.levels)} --rounds {a.rounds} --steps {a.steps}`", ""]
    return "\n".join(lines)


def draw(a, results):
    """Tokens a second of both methods: hone's bf16 and TRL's best at each level."""
    groups = []
    for method, tokens in (("sft", SFT), ("grpo", GRPO)):
        for level in a.levels:
            found = {who: best(results, method, who, level) for who in ("hone", "TRL")}
            groups.append((f"{method.upper()} {level}", [(who, tokens / one[0]) for who, one in found.items() if one]))
    return bars(f"Tokens a second, {pathlib.Path(a.model).name}, LoRA, {a.threads} threads", groups, "tok/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--levels", type=lambda text: text.split(","), default=list(LEVELS))
    for name, default in dict(rounds=2, steps=3, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--quick", action="store_true", help="one round of two steps: does it run?")
    a = parser.parse_args()
    if a.quick:
        a.rounds, a.steps = 1, 2
    a.said = setting(a.threads, ("torch", "trl", "peft", "transformers"))
    with tempfile.TemporaryDirectory() as temporary:
        results = {}
        measure(a, temporary, results)
    a.out.with_suffix(".svg").write_text(draw(a, results), encoding="utf-8")
    print(a.out)


if __name__ == "__main__":
    main()
