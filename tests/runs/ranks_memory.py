#!/usr/bin/env python3
"""Ranks of one host hold the frozen base once: the sum of their proportional set sizes (/proc/PID/smaps_rollup), and the same bytes of
adapter and metrics as one process. Where they cannot share it, each has its own copy, with a note; another base is an error.

Prints `ok NAME`, `not ok NAME` or `skip NAME` a check. usage: ranks_memory.py [--slow] [--only WORD] [--hone PROGRAM]
"""
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

from ranks import MODEL, difference, opened, report, results

LAYERS, VOCABULARY = 12, 384
FORMS = {  # name: options, bytes of a number of the base's linears
    "bf16": ({}, 2),
    "4 bits": ({"load_in_4bit": "true"}, 4.5 / 8),
    "fp32": ({"bf16": "false", "dtype": "float32"}, 4),
    "bf16, PiSSA": ({"init_lora_weights": "pissa_niter_1", "lora_target_modules": r".*\.q_proj"}, 2),
}
DAILY = ("bf16", "4 bits")  # without --slow: what is as it is on the disk, and what is made of it


def size_of(form, hidden):
    return int(FORMS[form][1] * LAYERS * (4 * hidden * hidden + 3 * hidden * 3 * hidden))


def write_large_model(folder, hidden):
    """A Llama of random numbers in bf16, with the tiny model's tokenizer: 41 million with a hidden size of 512."""
    folder.mkdir()
    config = json.loads((MODEL / "config.json").read_text())
    config.update(hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=LAYERS, num_attention_heads=8, num_key_value_heads=8,
                  head_dim=hidden // 8, dtype="bfloat16")
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(MODEL / name, folder / name)
    shapes = {"model.embed_tokens.weight": (VOCABULARY, hidden), "model.norm.weight": (hidden,)}
    for layer in range(LAYERS):
        of = f"model.layers.{layer}."
        shapes |= {f"{of}self_attn.{one}_proj.weight": (hidden, hidden) for one in "qkvo"}
        shapes |= {f"{of}mlp.{one}_proj.weight": (3 * hidden, hidden) for one in ("gate", "up")}
        shapes |= {f"{of}mlp.down_proj.weight": (hidden, 3 * hidden)}
        shapes |= {f"{of}{one}_layernorm.weight": (hidden,) for one in ("input", "post_attention")}
    header, place = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    rng = random.Random(3)
    signs = bytes(0x3C if value < 128 else 0xBC for value in range(256))  # numbers of 0.008 to 0.03
    with (folder / "model.safetensors").open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            data = bytearray(2 * count)
            data[0::2] = rng.randbytes(count)
            data[1::2] = rng.randbytes(count).translate(signs) if len(shape) > 1 else b"\x3f" * count
            out.write(data)


def memory_of(processes):
    """Sums over the processes, in bytes; None when one has ended."""
    out = {"Pss": 0, "Pss_Anon": 0, "Pss_Shmem": 0}
    for one in processes:
        try:
            text = pathlib.Path(f"/proc/{one.pid}/smaps_rollup").read_text()
        except OSError:
            return None
        for name in out:
            found = re.search(rf"^{name}:\s+(\d+) kB", text, re.M)
            if not found:
                return None
            out[name] += 1024 * int(found.group(1))
    return out


def run_and_watch(runs, words, ranks, output):
    """Exit codes, texts, and the memory at the moment of its largest sum, while the run is in its steps."""
    processes = runs.start(words, ranks)
    most = None
    deadline = time.monotonic() + 200
    while any(one.poll() is None for one in processes) and time.monotonic() < deadline:
        if (output / "plan.yaml").exists() and all(one.poll() is None for one in processes):
            found = memory_of(processes)
            if found and (most is None or found["Pss"] > most["Pss"]):
                most = found
        time.sleep(0.02)
    texts = [one.communicate(timeout=30)[0] for one in processes]
    return [one.returncode for one in processes], texts, most


def megabytes(size):
    return f"{size / 1e6:.0f}"


def options_of(model, more):
    return {"model_name_or_path": model, "eval_strategy": "no", "eval_dataset": None, **more}.items()


def check_form(runs, model, form, hidden, sizes):
    more, base = FORMS[form][0], size_of(form, hidden)
    first, single, said = None, None, []
    for ranks in sizes:
        output = runs.folder / f"{form.replace(' ', '_').replace(',', '')}-{ranks}"
        words = runs.words("sft", output, max(sizes) // ranks, options_of(model, more))
        codes, texts, memory = run_and_watch(runs, words, ranks, output)
        if any(codes) or memory is None:
            return report(f"one base, {form}", False, f"{ranks} ranks ended with {codes}: " + "\n".join(texts)[-2000:])
        found = results(output)
        first, single = first or found, single or memory
        if why := difference(first, found, 0):
            return report(f"one base, {form}", False, f"1 and {ranks} ranks: {why}")
        said.append(f"{ranks}: {megabytes(memory['Pss'])} MB")
        if ranks == 1:
            continue
        saved = single["Pss_Anon"] - memory["Pss_Anon"] / ranks
        once = 0.9 * base < memory["Pss_Shmem"] < 1.5 * base + 2e6  # with embedding, head and the ends of pages; twice would be 2
        least = 0.6 if "PiSSA" in form else 0.8  # shared when all is read: the allocator keeps some pages of the copies
        if not once or saved < least * base or "share one copy of the base" not in texts[0]:
            return report(f"one base, {form}", False,
                          f"{ranks} ranks share {megabytes(memory['Pss_Shmem'])} MB, and each saves {megabytes(saved)} of the base's "
                          f"{megabytes(base)} MB: {memory} after {single}\n{texts[0][-1500:]}")
        # program, data, adapter and activations of a rank are about 140 MB here
        growth = (memory["Pss"] - single["Pss"]) / (ranks - 1)
        said[-1] += f", {megabytes(growth)} a rank more"
        if base > 250e6 and growth > 0.6 * base:
            return report(f"one base, {form}", False, f"a rank more needs {megabytes(growth)} MB, with a base of {megabytes(base)} MB")
    return report(f"one base of {megabytes(base)} MB, {form}; memory of {'; '.join(said)}; equal bytes", True)


def check_namespaces(runs, model):
    name = "a rank that cannot open the base of its host has its own, with a note"
    if subprocess.run(["unshare", "-rU", "true"], capture_output=True).returncode:
        print(f"skip ranks: {name} (no namespaces here)")
        return True
    outputs = [runs.folder / "apart-1", runs.folder / "apart-2"]
    whole = runs.words("sft", outputs[0], 2, options_of(model, {}))
    codes, texts = runs.run(whole, 1)
    words = runs.words("sft", outputs[1], 1, options_of(model, {}))
    more, more_texts = runs.run([words, ["unshare", "-rU", *words]], 2)
    good = not any(codes + more) and "has its own copy of the base: rank 1 cannot share one" in more_texts[0].replace("\n", " ")
    why = "\n".join(texts + more_texts)[-2000:]
    return report(name, good and not difference(results(outputs[0]), results(outputs[1]), 0), why)


def check_other_base(runs, model):
    other = runs.folder / "other_model"
    shutil.copytree(model, other)
    with (other / "model.safetensors").open("r+b") as file:
        file.seek(-100_000, 2)  # in the last matrix; norms are as they were
        file.write(b"\x00\x3d")
    output = runs.folder / "other_base"
    words = [runs.words("sft", output, 1, options_of(folder, {})) for folder in (model, other)]
    codes, texts = runs.run(words, 2)
    good = codes == [2, 2] and all("base of the host is the same on rank 0, matrix" in text for text in texts) and not output.exists()
    return report("another base on one rank is refused", good, f"{codes} {texts[0][-1500:]}")


def main():
    passed = True
    with opened(__doc__) as (options, runs):
        model, hidden = runs.folder / "large_model", 1024 if options.slow else 512
        write_large_model(model, hidden)
        for form in FORMS if options.slow else DAILY:
            if options.only in f"form {form}":
                passed &= check_form(runs, model, form, hidden, (1, 2, 4) if options.slow or form == "bf16" else (1, 2))
        for check in (check_namespaces, check_other_base):
            if options.only in check.__name__:
                passed &= check(runs, model)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
