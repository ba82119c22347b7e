"""hone's own command line under the paper GPU: a card is found and used, and where it cannot be, one sentence says why and nothing
is trained on the CPU instead. Each check gives (good, text)."""
import json

import cases
import on_paper


def words(method, data, output, options):
    out = [method, "--device", "cuda", "--model_name_or_path", cases.FIXTURES / "tiny_llama", "--dataset_name", cases.FIXTURES / data,
           "--output_dir", output, "--max_steps", 2, "--threads", 1, "--save_strategy", "no", "--report_page", "false", "--bf16", "true"]
    for key, value in options.items():
        out += [f"--{key}", value]
    return out


SFT = cases.LORA | cases.TWO


def env_names_the_card(bench):
    code, text = bench.run_hone("env", environment=bench.environment)
    good = code == 0 and "paper H100" in text and "loaded" in text
    return good, "paper H100" if good else text[-400:]


def a_run_uses_it(bench, method="sft", data="sft/text.jsonl", options=SFT):
    output, report = bench.folder / f"hone-{method}", bench.folder / f"hone-{method}.jsonl"
    environment = on_paper.environment(bench.build, report=report, more={"OMP_NUM_THREADS": "1"})
    code, text = bench.run_hone(*words(method, data, output, options | {"skip_doctor": "true"}), environment=environment)
    counts = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    launches = sum(line["launches"] for line in counts)
    good = code == 0 and launches > 100 and (output / "adapter_model.safetensors").exists()
    return good, f"{launches:,} launches" if good else f"ended with {code}, {launches} launches: {text[-700:]}"


def grpo_uses_it(bench):
    return a_run_uses_it(bench, "grpo", "trl_grpo/prompts.jsonl", cases.LORA | cases.GROUPS)


# Kernels that are not run give zeros, and so would a broken card: what the doctor probes first has to notice.
def a_card_that_computes_zeros_is_refused(bench):
    output = bench.folder / "hone-doctor"
    code, text = bench.run_hone(*words("sft", "sft/text.jsonl", output, SFT), environment=bench.environment)
    trained = (output / "adapter_model.safetensors").exists()
    return code == 2 and "NUM-04" in text and not trained, f"ended with {code}" + ("" if "NUM-04" in text else f": {text[-700:]}")


# By pages, unless the user configures libtorch's allocator.
def memory_is_taken_by_pages(bench):
    texts = []
    for more in ({}, {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}):
        output = bench.folder / f"hone-memory-{len(more)}"
        environment = on_paper.environment(bench.build, more={"OMP_NUM_THREADS": "1"} | more)
        code, text = bench.run_hone(*words("sft", "sft/text.jsonl", output, SFT | {"skip_doctor": "true"}), environment=environment)
        if code != 0:
            return False, f"ended with {code}: {text[-400:]}"
        texts.append("in blocks, which leave holes, and not by pages: PYTORCH_CUDA_ALLOC_CONF is set" in text)
    return texts == [False, True], f"in blocks: {texts}"


def refused(bench, name, sentences, **how):
    """A run that asks for the card ends with exit code 2 and these words, and `hone env` has them too."""
    environment = on_paper.environment(bench.build, **how)
    output = bench.folder / f"hone-{name}"
    code, text = bench.run_hone(*words("sft", "sft/text.jsonl", output, SFT), environment=environment)
    _, env = bench.run_hone("env", environment=environment)
    flat, flat_env = " ".join(text.split()), " ".join(env.split())
    lost = [word for word in sentences if word not in flat or word not in flat_env]
    good = code == 2 and not lost and not output.exists()
    return good, sentences[0] if good else f"ended with {code}; without {lost}: {text[-500:]} {env[-300:]}"


CHECKS = {
    "hone env names the card": env_names_the_card,
    "hone sft uses the card": a_run_uses_it,
    "hone grpo uses the card": grpo_uses_it,
    "a card that computes zeros is refused": a_card_that_computes_zeros_is_refused,
    "memory is taken by pages": memory_is_taken_by_pages,
    "without a card": lambda bench: refused(bench, "no-card", ["the driver shows no GPU"], more={"PAPER_DEVICES": "0"}),
    "with a driver that is too old": lambda bench: refused(
        bench, "old-driver", ["NVIDIA's driver is for CUDA 12.4"], more={"PAPER_DRIVER": "12040"}),
    "without a driver": lambda bench: refused(bench, "no-driver", ["libcuda.so.1 is not found"], without=("libcuda.so.1",)),
    "without a library that libtorch needs": lambda bench: refused(
        bench, "no-cublas", ["libcublas.so.13 is missing"], without=("libcublas.so.13",)),
}
