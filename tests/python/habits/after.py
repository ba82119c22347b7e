"""After train(): the result is opened, continued, measured and used."""
import pathlib

from common import FEW, MODEL, PAIRS, TEXTS, data, habit, logged, tokenizer_of


def trained(**options):
    from trl import SFTConfig, SFTTrainer
    trainer = SFTTrainer(model=MODEL, args=SFTConfig(output_dir="out", **{**FEW, **options}), train_dataset=data(TEXTS))
    trainer.train()
    return trainer


@habit()
def used():
    """the saved model is opened by transformers and answers"""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    trainer = trained()
    trainer.save_model("saved")
    model, tokenizer = AutoModelForCausalLM.from_pretrained("saved"), AutoTokenizer.from_pretrained("saved")
    inputs = tokenizer("the number 3", return_tensors="pt")
    ids = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    files = {path.name for path in pathlib.Path("saved").iterdir()}
    wanted = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    return {"ids": ids[0].tolist(), "sum": float(model.lm_head.weight.abs().sum()), "files": sorted(files & wanted)}


@habit()
def pipeline_of_a_checkpoint():
    """pipeline("text-generation") of a checkpoint's folder, with a text and with turns"""
    from transformers import pipeline
    trained(save_strategy="steps", save_steps=3)
    pipe = pipeline("text-generation", model="out/checkpoint-3", max_new_tokens=4, do_sample=False)
    text = pipe("the number 3")[0]["generated_text"]
    turns = pipe([{"role": "user", "content": "What comes after 3?"}])[0]["generated_text"]
    return {"text": text, "turns": [turn["role"] for turn in turns], "answer": turns[-1]["content"]}


@habit(fast=True)
def resumed():
    """train(resume_from_checkpoint=True) goes on where a shorter run ended"""
    from trl import SFTConfig, SFTTrainer
    options = {**FEW, "save_strategy": "steps", "save_steps": 2, "lr_scheduler_type": "constant"}
    SFTTrainer(model=MODEL, args=SFTConfig(output_dir="out", **{**options, "max_steps": 2}), train_dataset=data(TEXTS)).train()
    trainer = SFTTrainer(model=MODEL, args=SFTConfig(output_dir="out", **{**options, "max_steps": 4}), train_dataset=data(TEXTS))
    trainer.train(resume_from_checkpoint=True)
    folders = sorted(path.name for path in pathlib.Path("out").glob("checkpoint-*"))
    return {"loss": logged(trainer, "loss"), "global_step": trainer.state.global_step, "checkpoints": folders}


@habit(fast=True)
def evaluated():
    """evaluate() before and after train(), log_metrics and save_metrics"""
    from trl import DPOConfig, DPOTrainer
    args = DPOConfig("out", **{**FEW, "save_strategy": "steps"}, save_steps=3, eval_strategy="steps", eval_steps=3)
    trainer = DPOTrainer(MODEL, args=args, train_dataset=data(PAIRS), eval_dataset=data(PAIRS[:4]))
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    trainer.log_metrics("eval", after)
    trainer.save_metrics("eval", after)
    return {"before": before["eval_loss"], "after": after["eval_loss"], "margin": after["eval_rewards/margins"],
            "file": (pathlib.Path("out") / "eval_results.json").is_file()}


@habit()
def in_place():
    """the object that was passed has the trained parameters, and answers with them"""
    import torch
    from transformers import AutoModelForCausalLM
    from trl import SFTConfig, SFTTrainer
    model = AutoModelForCausalLM.from_pretrained(MODEL)
    trainer = SFTTrainer(model=model, args=SFTConfig("out", **FEW), train_dataset=data(TEXTS))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    trainer.train()
    same = [name for name, value in model.named_parameters() if torch.equal(before[name], value)]
    sums = {name: float(value.abs().sum()) for name, value in model.named_parameters()}
    inputs = tokenizer_of(MODEL)("the number 3", return_tensors="pt")
    return {"is it": trainer.model is model, "same": same, "sums": sums,
            "ids": trainer.model.generate(**inputs, max_new_tokens=6, do_sample=False)[0].tolist()}
