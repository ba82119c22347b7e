"""Runs of TRL's SFTTrainer on CPU in fp32, step by step: FIXTURES/trl/<case>.json (and <case>_adapter.safetensors, the
adapter after the last step, for tiny cases). usage: record_trl_sft.py [--only PREFIX] [--out FOLDER] [--full FOLDER]

Each JSON: versions; model, adapter (the PEFT folder the run starts from), data; options (what differs from TRL's
defaults, in TRL's names; both sides take these and nothing else); facts (rows, tokens, optimizer steps an epoch);
steps: one a step, as logged, unrounded: step, loss, grad_norm (before clipping), learning_rate, entropy,
mean_token_accuracy (both means over micro-batches, not tokens), num_tokens, epoch, and micro: per micro-batch
[rows, tokens, scored] where rows are lists of row numbers in the data file (a packed row lists its members in order);
evals: as logged; first_step: the first optimizer step's micro-batches as token ids, one list an example (in place
order), so that tokenizing, order and truncation can be told apart.
TRL sets use_cpu, report_to, output_dir, logging_steps, disable_tqdm besides: none changes a number.

Packing on CPU: bfd forces padding_free, which flattens a micro-batch to one row with position_ids and no attention
mask; transformers (masking_utils.find_packed_sequence_indices) then builds a block-diagonal causal mask for sdpa and
eager. A packed case holds the proof: `isolation`, the largest difference between the logits of the first step's packed
micro-batches and those of each example alone, over the largest logit; and `first_loss_alone`, the first step's loss
from each example alone, which equals what TRL logged. Both are checked within 1e-5."""
import argparse
import json
import tempfile
from pathlib import Path

import common
from common import (FIXTURES, SMOLLM2, SMOLLM2_ADAPTER, adapter_parameters, attention_of, versions, with_head_bias, write_json,
                    write_tensors)

import torch
from datasets import Dataset, disable_progress_bars, load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

TINY = (FIXTURES / "tiny_llama", FIXTURES / "tiny_llama/adapter")
TOKENS = (FIXTURES / "tiny_llama", FIXTURES / "tiny_llama/adapter_tokens")  # trainable_token_indices, the head tied
SAVED = (FIXTURES / "tiny_llama", FIXTURES / "tiny_llama/adapter_saved")  # modules_to_save: head, embedding, norms; tied
PATTERNS = (FIXTURES / "tiny_llama", FIXTURES / "tiny_llama/adapter_patterns")
REAL = (SMOLLM2, SMOLLM2_ADAPTER)
SHARED = dict(bf16=False, per_device_train_batch_size=2, gradient_accumulation_steps=2, learning_rate=1e-3,
              lr_scheduler_type="cosine", warmup_steps=2, max_grad_norm=1.0, max_steps=10, seed=42)
PACKED = dict(packing=True, max_length=128)
CASES = {  # name: (model and adapter, data, what differs from SHARED)
    "tiny_text": (TINY, "text", dict(max_length=64)),
    "tiny_text_packed": (TINY, "text", PACKED),
    "tiny_text_linear": (TINY, "text", dict(max_length=64, lr_scheduler_type="linear", warmup_steps=0.2,
                                            gradient_accumulation_steps=3, weight_decay=0.1, max_grad_norm=0.05)),
    "tiny_text_constant": (TINY, "text", dict(max_length=64, lr_scheduler_type="constant_with_warmup", seed=7,
                                              data_seed=11, max_steps=-1, num_train_epochs=1,
                                              per_device_train_batch_size=3)),
    "tiny_text_eval": (TINY, "text", dict(max_length=64, eval_strategy="steps", eval_steps=5,
                                          per_device_eval_batch_size=2)),
    "tiny_prompt_completion": (TINY, "prompt_completion", dict(max_length=64)),
    "tiny_prompt_completion_packed": (TINY, "prompt_completion", PACKED),
    "tiny_messages": (TINY, "messages", dict(max_length=96)),
    "tiny_messages_assistant": (TINY, "messages", dict(max_length=96, assistant_only_loss=True)),
    "tiny_messages_assistant_packed": (TINY, "messages", dict(PACKED, assistant_only_loss=True)),
    "tiny_tokens": (TOKENS, "text", dict(max_length=64, weight_decay=0.1)),
    "tiny_saved": (SAVED, "text", dict(max_length=64, weight_decay=0.1)),
    "tiny_patterns": (PATTERNS, "text", dict(max_length=64)),
    "tiny_tokens_dft": (TOKENS, "text", dict(max_length=64, loss_type="dft")),
    "tiny_tokens_smoothed": (TOKENS, "text", dict(max_length=64, label_smoothing_factor=0.3)),
    "tiny_text_dft": (TINY, "text", dict(max_length=64, loss_type="dft", eval_strategy="steps", eval_steps=5,
                                         per_device_eval_batch_size=2)),
    "tiny_text_smoothed": (TINY, "text", dict(max_length=64, label_smoothing_factor=0.1, eval_strategy="steps",
                                              eval_steps=5, per_device_eval_batch_size=2)),
    "tiny_prompt_completion_smoothed": (TINY, "prompt_completion", dict(max_length=64, label_smoothing_factor=0.2)),
    "tiny_text_keep_end": (TINY, "text", dict(max_length=24, truncation_mode="keep_end")),
    "tiny_prompt_completion_keep_end": (TINY, "prompt_completion", dict(max_length=24, truncation_mode="keep_end")),
    "tiny_text_bfd_split": (TINY, "text", dict(packing=True, packing_strategy="bfd_split", max_length=24)),
    "tiny_messages_bfd_requeue": (TINY, "messages", dict(packing=True, packing_strategy="bfd-requeue", max_length=32,
                                                         assistant_only_loss=True)),
    "tiny_text_wrapped": (TINY, "text", dict(packing=True, packing_strategy="wrapped", max_length=48)),
    "tiny_messages_wrapped": (TINY, "messages", dict(packing=True, packing_strategy="wrapped", max_length=32,
                                                     shuffle_dataset=True)),
    # 40 rows, 4 a step: after step 10 the rows come again. dataset_streaming is an option of TRL's script, not of SFTConfig.
    "tiny_text_streamed": (TINY, "text", dict(max_length=64, dataset_streaming=True, max_steps=13, eval_strategy="steps",
                                              eval_steps=6, per_device_eval_batch_size=2)),
    "tiny_messages_streamed": (TINY, "messages", dict(max_length=96, assistant_only_loss=True, dataset_streaming=True,
                                                      max_steps=6)),
    "tiny_text_streamed_packed": (TINY, "text", dict(PACKED, max_length=48, dataset_streaming=True, max_steps=3)),
    **{f"tiny_{family}_text": ((FIXTURES / f"tiny_{family}", FIXTURES / f"tiny_{family}/adapter"), "text",
                               dict(max_length=64, max_steps=5))
       for family in ("mistral", "smollm3", "granite", "olmo2", "gemma3", "phi3", "qwen2_windows", "lfm2", "phi3_short", "qwen3_yarn",
                      "ministral3", "gemma2", "gemma", "olmo3", "qwen3_5", "gemma4", "exaone4")},
    # with the load-balancing loss of the routers, which Mixtral's run weighs more, and of which TRL 1.16 finds no number of
    # experts in a GraniteMoeConfig
    **{f"tiny_{family}_text": ((FIXTURES / f"tiny_{family}", FIXTURES / f"tiny_{family}/adapter"), "text",
                               dict(max_length=64, max_steps=5, router_aux_loss_coef=factor))
       for family, factor in (("qwen3_moe", None), ("mixtral", 0.5), ("olmoe", None), ("granitemoe", 0.0), ("granite4", 0.0), ("granite4_nope", 0.0))},
    # the label smoother leaves the load-balancing loss out, which is logged
    "tiny_qwen3_moe_smoothed": ((FIXTURES / "tiny_qwen3_moe", FIXTURES / "tiny_qwen3_moe/adapter"), "text",
                                dict(max_length=64, max_steps=5, label_smoothing_factor=0.2)),
    "smollm2_text": (REAL, "text", dict(max_length=96)),
    "smollm2_text_packed": (REAL, "text", PACKED),
    "smollm2_prompt_completion": (REAL, "prompt_completion", dict(max_length=96)),
}


class Recorder:
    """Wraps the trainer's collator: what each micro-batch was made of, in the order of the draws."""

    def __init__(self, trainer, examples):
        self.inner, self.drawn = trainer.data_collator, []
        self.row_of = {}
        for row, ids in enumerate(examples):
            self.row_of.setdefault(tuple(ids), row)
        assert len(self.row_of) == len(examples), "two rows have the same tokens"

    def __call__(self, features):
        batch = self.inner(features)
        rows, ids = [], []
        for feature in features:
            cuts = feature.get("seq_lengths") or [len(feature["input_ids"])]
            members, at = [], 0
            for length in cuts:
                one = list(feature["input_ids"][at:at + length])
                members.append(self.row_of.get(tuple(one), -1))  # -1: a fragment of a row
                ids.append(one)
                at += length
            rows.append(members if "seq_lengths" in feature else members[0])
        shifted = batch["labels"][:, 1:]
        tokens = int(batch["attention_mask"].sum()) if "attention_mask" in batch else batch["input_ids"].numel()
        self.drawn.append(dict(rows=rows, tokens=tokens, scored=int((shifted != -100).sum()), ids=ids, batch=batch))
        return batch


def prepared_ids(model, tokenizer, data, settings, folder):
    """The token ids of every row before packing, by TRL itself: the same options without packing."""
    plain = SFTTrainer(model, args=SFTConfig(output_dir=folder, use_cpu=True, report_to="none",
                                             **{**settings, "packing": False}),
                       train_dataset=data, processing_class=tokenizer)
    return [list(ids) for ids in plain.train_dataset["input_ids"]]


def isolation(model, batches):
    """(logits, loss): the first step's packed logits against each example's alone, and its loss from each alone."""
    model.eval()
    worst, largest, nll, scored = 0.0, 0.0, 0.0, 0
    with torch.no_grad():
        for batch in batches:
            packed = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], use_cache=False).logits[0]
            edges = batch["cu_seq_lens_q"].tolist()
            for a, b in zip(edges, edges[1:]):
                alone = model(input_ids=batch["input_ids"][:, a:b], use_cache=False).logits[0]
                labels = batch["labels"][0, a:b][1:]
                worst = max(worst, (packed[a:b] - alone).abs().max().item())
                nll += torch.nn.functional.cross_entropy(alone[:-1], labels, ignore_index=-100, reduction="sum").item()
                scored += int((labels != -100).sum())
            largest = max(largest, packed.abs().max().item())
    return worst / largest, nll / scored


def run(name, out):
    (model_folder, adapter), form, extra = CASES[name]
    options = {**SHARED, **extra}
    settings = {key: value for key, value in options.items() if key != "dataset_streaming"}
    data_path = FIXTURES / "sft" / f"{form}.jsonl"
    rows = lambda path: Dataset.from_list([json.loads(line) for line in path.read_text().splitlines()])
    # the tiny families share one, whatever class of their own transformers would take
    tokenizer = AutoTokenizer.from_pretrained(str(model_folder if model_folder == SMOLLM2 else FIXTURES / "tiny_llama"))
    load = lambda: with_head_bias(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(
        str(model_folder), dtype=torch.float32, attn_implementation=attention_of(model_folder)), str(adapter), is_trainable=True))
    evaluated = {"eval_dataset": rows(FIXTURES / "sft/eval_text.jsonl")} if "eval_strategy" in extra else {}
    with tempfile.TemporaryDirectory() as folder:
        training = {key: value for key, value in settings.items() if not key.startswith("eval_")}
        if settings.get("packing_strategy"):  # which cut rows instead of leaving tokens out
            training = {**training, "max_length": None}
        examples = prepared_ids(load(), tokenizer, rows(data_path), training, folder)
        assert len(examples) == len(rows(data_path)), "a row was dropped: row numbers would shift"
        model = load()
        streams = options.get("dataset_streaming", False)
        train = load_dataset("json", data_files=str(data_path), split="train", streaming=True) if streams else rows(data_path)
        trainer = SFTTrainer(model, args=SFTConfig(output_dir=folder, use_cpu=True, report_to="none", logging_steps=1,
                                                   disable_tqdm=True, save_strategy="no", **settings),
                             train_dataset=train, processing_class=tokenizer, **evaluated)
        recorder = Recorder(trainer, examples)
        trainer.data_collator = recorder
        if evaluated:  # evaluation draws through the collator too: give it the plain one
            loader = trainer.get_eval_dataloader
            def plain_loader(*args, **kwargs):
                trainer.data_collator = recorder.inner
                made = loader(*args, **kwargs)
                trainer.data_collator = recorder
                return made
            trainer.get_eval_dataloader = plain_loader
        micro_of_step = []
        step = trainer.training_step
        def counted(*args, **kwargs):
            micro_of_step.append(trainer.state.global_step)
            return step(*args, **kwargs)
        trainer.training_step = counted
        trainer.train()
    history = trainer.state.log_history
    wanted = ("step", "loss", "grad_norm", "learning_rate", "entropy", "mean_token_accuracy", "num_tokens", "epoch")
    # At an epoch's end the loader has drawn nothing ahead; at max_steps it has: only what was trained on is kept.
    drawn = recorder.drawn[:len(micro_of_step)]
    steps = []
    for entry in (entry for entry in history if "loss" in entry):
        mine = [one for one, at in zip(drawn, micro_of_step) if at == entry["step"] - 1]
        steps.append({key: entry[key] for key in wanted}
                     | {"micro": [[one["rows"], one["tokens"], one["scored"]] for one in mine]})
    golden = {"versions": versions(), "model": str(model_folder), "adapter": str(adapter), "data": str(data_path),
              "options": options,
              "facts": {"rows": len(examples), "training_rows": None if streams else len(trainer.train_dataset),
                        "tokens": sum(map(len, examples)), "longest": max(map(len, examples)),
                        "steps": len(steps), "max_steps": trainer.state.max_steps}}
    if settings.get("packing") and settings.get("packing_strategy") != "wrapped":  # whose examples see each other
        first = [one["batch"] for one, at in zip(drawn, micro_of_step) if at == 0]
        golden["isolation"], golden["first_loss_alone"] = isolation(load(), first)
        leak = max(golden["isolation"], abs(golden["first_loss_alone"] / steps[0]["loss"] - 1))
        assert leak < 1e-5, f"{name}: packed examples see each other: {leak}"
    golden["first_step"] = [one["ids"] for one, at in zip(drawn, micro_of_step) if at == 0]
    golden["steps"] = steps
    if evaluated:
        golden["eval_data"] = str(FIXTURES / "sft/eval_text.jsonl")
        golden["evals"] = [{k: v for k, v in entry.items() if k.startswith("eval_") and "runtime" not in k
                            and "per_second" not in k} | {"step": entry["step"]} for entry in history if "eval_loss" in entry]
    write_json(out / "trl" / f"{name}.json", golden)
    final = adapter_parameters(trainer.model)
    print(f"{name}: loss {steps[0]['loss']:.4f} -> {steps[-1]['loss']:.4f}, grad norm {steps[0]['grad_norm']:.4f}, "
          f"{len(steps)} steps", flush=True)
    return final


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FIXTURES)
    parser.add_argument("--full", type=Path, help="also writes every case's final adapter there")
    parser.add_argument("--only", default="", help="cases whose name begins so")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    out = arguments.out if arguments.out == FIXTURES else arguments.out.resolve()
    full = arguments.full.resolve() if arguments.full else None
    common.enter(arguments.threads)
    disable_progress_bars()
    for name in CASES:
        if not name.startswith(arguments.only):
            continue
        final = run(name, out)
        if name in ("tiny_text", "tiny_text_packed", "tiny_text_linear", "tiny_tokens", "tiny_saved"):
            write_tensors(out / "trl" / f"{name}_adapter.safetensors", final)
        if full:
            write_tensors(full / f"{name}_adapter.safetensors", final)


main()
