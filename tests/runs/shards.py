#!/usr/bin/env python3
"""Full fine-tuning divided among ranks (zero_stage), and the optimizer's state on a disk (offload_folder).

Every stage trains what one process trains, to 1e-5 in fp32; what is saved is whole, so that any stage goes on from any other; and a
rank's memory is what the plan says (--slow: of SmolLM2-135M, on 1, 2 and 4 ranks).

Prints `ok NAME`, `not ok NAME` or `skip NAME` a check. usage: shards.py [--slow] [--only WORD] [--hone PROGRAM]
"""
import json
import re
import shutil
import subprocess
import sys

from ranks import FULL, METHODS, SAMPLED, SAMPLES, SOURCE, difference, opened, report, results

FP32 = {**FULL, "bf16": "false", "dtype": "float32"}
CASES = {
    "sft": ("sft", "texts", FP32),
    "sft with samples": ("sft", "answers", {**FP32, **SAMPLES}),
    "sft of some layers": ("sft", "texts", {**FP32, "unfrozen_parameters": '["^model.layers.1"]'}),
    "sft with sgd": ("sft", "texts", {**FP32, "optim": "sgd", "optim_args": "momentum=0.9"}),
    "dpo": ("dpo", "pairs", FP32),
    "kto": ("kto", "marked", FP32),
    "reward": ("reward", "pairs", FP32),
    "grpo": ("grpo", "prompts", {**FP32, **SAMPLED}),
}
FAST = {"sft": (1, 2, 3), "sft with samples": (3,), "sft of some layers": (3,), "dpo": (3,), "reward": (2,)}  # the rest with --slow


def run(runs, case, name, count, accumulation, more):
    """(results or None, what went wrong)"""
    METHODS[case] = CASES[case]
    output = runs.folder / name.replace(" ", "_")
    codes, texts = runs.run(runs.words(case, output, accumulation, more.items()), count)
    if any(codes):
        return None, f"{name} ended with {codes}: " + "\n".join(texts)[-3000:]
    return results(output), ""


def check_stages(runs, case, sizes, stages):
    passed = True
    most = max(sizes)
    whole, why = run(runs, case, f"{case}-whole", 1, most, {})
    if whole is None:
        return report(f"{case}: one process", False, why)
    for count in sizes:
        plain, why = run(runs, case, f"{case}-{count}-0", count, most // count, {})
        for stage in stages:
            divided, why = run(runs, case, f"{case}-{count}-{stage}", count, most // count, {"zero_stage": stage}) if plain else (None, why)
            why = why or difference(whole, divided, 1e-5)
            passed &= report(f"{case}: zero_stage {stage} on {count} ranks", not why, why)
    return passed


def check_resume(runs):
    """Saved after 2 of 4 steps by one division, continued by another: the end is that of one process, to 1e-5."""
    saving = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    whole, why = run(runs, "sft", "resume-whole", 1, 4, saving)
    passed = whole is not None or report("resume: one process", False, why)
    changes = [("3 on 4, then whole", (4, 3), (1, 0)), ("whole, then 3 on 2", (1, 0), (2, 3)), ("2 on 2, then 1 on 4", (2, 2), (4, 1))]
    for name, first, second in changes if runs.slow else changes[:2]:
        output = runs.folder / f"resume {name}".replace(" ", "_")
        _, why = run(runs, "sft", f"resume {name}", first[0], 4 // first[0], {**saving, "zero_stage": first[1]})
        shutil.rmtree(output / "checkpoint-4", ignore_errors=True)
        end = None
        if not why:
            end, why = run(runs, "sft", f"resume {name}", second[0], 4 // second[0],
                           {**saving, "zero_stage": second[1], "resume_from_checkpoint": "true"})
        why = why or difference(whole, end, 1e-5)
        passed &= report(f"resume: zero_stage {name}", not why, why)
    return passed


def check_best(runs):
    more = {"zero_stage": 3, "save_strategy": "steps", "save_steps": 1, "eval_steps": 1, "load_best_model_at_end": "true", "save_total_limit": 1}
    whole, why = run(runs, "sft", "best-whole", 1, 2, {**more, "zero_stage": 0})
    divided, why = run(runs, "sft", "best-divided", 2, 1, more) if whole else (None, why)
    why = why or difference(whole, divided, 1e-5)
    return report("load_best_model_at_end with zero_stage 3", not why, why)


def check_offload(runs):
    passed = True
    folder = runs.folder / "disk"
    for name, count, more in (("alone", 1, {}), ("with zero_stage 2", 2, {"zero_stage": 2})):
        plain, why = run(runs, "sft", f"memory {name}", count, 1, more)
        disk, why = run(runs, "sft", f"disk {name}", count, 1, {**more, "offload_folder": folder}) if plain else (None, why)
        why = why or difference(plain, disk, 0) or (f"{list(folder.iterdir())} are left" if any(folder.iterdir()) else "")
        passed &= report(f"offload_folder {name}: equal bytes, and nothing is left in it", not why, why)
    return passed


def check_full_disk_of_offload(runs):
    _, why = run(runs, "sft", "no disk", 1, 1, {"offload_folder": "/proc/none"})
    return report("an offload_folder that cannot be written is named", "/proc/none" in why and "offload" in why, why)


def check_deepspeed(runs):
    """The stage of a DeepSpeed file is the option's."""
    file = runs.folder / "zero3.json"
    file.write_text(json.dumps({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": str(runs.folder / "nvme")}},
                                "train_micro_batch_size_per_gpu": "auto"}))
    told, why = run(runs, "sft", "deepspeed", 2, 1, {"deepspeed": file})
    asked, why = run(runs, "sft", "asked", 2, 1, {"zero_stage": 3, "offload_folder": runs.folder / "nvme"}) if told else (None, why)
    why = why or difference(asked, told, 0)
    plan = (runs.folder / "deepspeed" / "plan.yaml").read_text()
    return report("deepspeed: zero3.json is zero_stage 3", not why and re.search(r"zero_stage: 3", plan) is not None, why or plan[-2000:])


def check_memory(runs):
    """The peak of a rank against its plan."""
    found = sorted((SOURCE / "models").glob("**/*.gguf"))
    if not found:
        print("skip ranks: memory of SmolLM2-135M (not fetched)")
        return True
    model = runs.folder / "smollm2"
    subprocess.run([runs.hone, "convert", "--input", found[0], "--output", model], check=True,
                   stdout=subprocess.DEVNULL)
    passed = True
    for count, stage in ((1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (4, 1), (4, 2), (4, 3)):
        METHODS["memory"] = ("sft", "texts", {**FULL, "model_name_or_path": model, "dtype": "float32", "zero_stage": stage,
                                              "eval_strategy": "no", "per_device_train_batch_size": 1})
        output = runs.folder / f"memory-{count}-{stage}"
        codes, texts = runs.run(runs.words("memory", output, 1), count)
        name = f"memory of zero_stage {stage} on {count} ranks"
        if any(codes):
            passed &= report(name, False, "\n".join(texts)[-3000:])
            continue
        peak, planned = map(float, re.findall(r"memory +peak ([0-9.]+) GB, planned ([0-9.]+) GB", texts[0])[-1])
        passed &= report(f"{name}: {peak:.2f} GB, planned {planned:.2f}", abs(peak - planned) <= 0.1 * planned, texts[0][-3000:])
    return passed


def main():
    passed = True
    with opened(__doc__) as (options, runs):
        for case in CASES if options.slow else FAST:
            if options.only in f"stages {case}":
                passed &= check_stages(runs, case, (2, 4) if options.slow else (2,), (1, 2, 3) if options.slow else FAST[case])
        checks = [check_resume, check_best, check_offload, check_full_disk_of_offload, check_deepspeed]
        for check in checks + ([check_memory] if options.slow or "memory" in options.only else []):
            if options.only in check.__name__:
                passed &= check(runs)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
