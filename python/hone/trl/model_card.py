"""README.md of a result, with the metadata of TRL's card: what create_model_card writes. `hone push` makes one where there is none."""
import json

_PAPERS = {
    "DPO": ("Direct Preference Optimization: Your Language Model is Secretly a Reward Model", "2305.18290"),
    "KTO": ("KTO: Model Alignment as Prospect Theoretic Optimization", "2402.01306"),
    "GRPO": ("DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models", "2402.03300"),
    "RLOO": ("Back to Basics: Revisiting REINFORCE-Style Optimization for Learning from Human Feedback in LLMs", "2402.14740"),
    "OnlineDPO": ("Direct Language Model Alignment from Online AI Feedback", "2402.04792"),
    "Distillation": ("On-Policy Distillation of Language Models: Learning from Self-Generated Mistakes", "2306.13649"),
    "GKD": ("On-Policy Distillation of Language Models: Learning from Self-Generated Mistakes", "2306.13649"),
    "GMPO": ("Geometric-Mean Policy Optimization", "2507.20673"),
    "CPO": ("Contrastive Preference Optimization: Pushing the Boundaries of LLM Performance in Machine Translation", "2401.08417"),
    "ORPO": ("ORPO: Monolithic Preference Optimization without Reference Model", "2403.07691"),
}


def _metadata(name, base, dataset, tags, method, full):
    lines = ["---"]
    if base:
        lines.append(f"base_model: {json.dumps(base)}")
    if dataset:
        lines += ["datasets:", *(f"- {json.dumps(one)}" for one in ([dataset] if isinstance(dataset, str) else dataset))]
    lines += [f"library_name: {'transformers' if full else 'peft'}", f"model_name: {json.dumps(name)}", "tags:"]
    own = ["hone", method.lower(), "trl", *([] if full else ["lora"])]
    lines += [f"- {json.dumps(one)}" for one in dict.fromkeys([*tags, *own])]
    return [*lines, "---", ""]


def card(name, base, dataset, tags, method, full, hub_model_id, metrics):
    """`base`: a name of the hub, or None; `dataset`: a name or a list of them, or None; `metrics`: the last values by name."""
    lines = [*_metadata(name, base, dataset, tags, method, full), f"# {name}", ""]
    kind = "A fine-tuned version" if full else "A LoRA adapter"
    of = f" of [{base}](https://huggingface.co/{base})" if base else ""
    several = [dataset] if isinstance(dataset, str) else list(dataset or ())
    on = ", trained on " + ", ".join(f"[{one}](https://huggingface.co/datasets/{one})" for one in several) if several else ""
    lines += [f"{kind}{of}{on}. It was trained with hone, with TRL's options.", ""]
    if method != "Reward":
        lines += ["## Quick start", "", "```python", "from transformers import pipeline", "",
                  f"generator = pipeline(\"text-generation\", model={json.dumps(hub_model_id)})",
                  "print(generator([{\"role\": \"user\", \"content\": \"What is the capital of France?\"}], max_new_tokens=128, "
                  "return_full_text=False)[0][\"generated_text\"])", "```", ""]
    lines += ["## Training", ""]
    title, paper = _PAPERS.get(method, ("", ""))
    lines += [f"Method: {method}" + (f", introduced in [{title}](https://huggingface.co/papers/{paper})." if paper else "."), ""]
    if metrics:
        lines += ["| metric at the end | |", "| --- | ---: |", *(f"| `{name}` | {value:.5g} |" for name, value in metrics.items()), ""]
    return "\n".join(lines)
