#!/usr/bin/env python3
"""hone.trl around train(): every public name of TRL's trainers and of what scripts meet in them works, or is refused with what to do.

The names are recorded from TRL, transformers, PEFT and accelerate (tests/parity/record_attributes.py); none of them is needed here.

usage: tests/python/attributes_test.py [--hone PROGRAM]
"""
import argparse
import contextlib
import dataclasses
import functools
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
import warnings

sys.dont_write_bytecode = True
from checks import PARITY, PROMPTS, QUICK, SOURCE, TEXTS, TINY, Tests, holds, raises, same

LORA = {"use_peft": True, "lora_r": 2}
RECORDED = json.loads((PARITY / "attributes.json").read_text(encoding="utf-8"))


def sft(folder, **more):
    from hone import trl
    named = {name: more.pop(name) for name in ("processing_class", "eval_dataset", "peft_config", "callbacks") if name in more}
    args = trl.SFTConfig(output_dir=str(folder), **{**QUICK, "max_steps": 1, **LORA, **more})
    return trl.SFTTrainer(TINY, args, train_dataset=TEXTS, **named)


def tables():
    from hone.trl import attributes
    return {"trainer": attributes.TRAINER, "arguments": attributes.ARGUMENTS, "state": attributes.STATE, "accelerator": attributes.ACCELERATOR,
            "model": attributes.MODEL}


def unmarked(recorded, marked):
    """["trainer: SFTTrainer.name"] of names that no row has."""
    return [f"{kind}: {owner}.{name}" for kind, table in marked.items() for owner, names in recorded[kind].items() for name in names
            if name not in table]


# ---- tables

def test_rows(folder):
    """every recorded name has a row, and a name without one is found"""
    from hone.trl import attributes
    same(unmarked(RECORDED, tables()), [], "names without a row: mark them in python/hone/trl/attributes.py")
    holds(sum(len(names) for kind in tables() for names in RECORDED[kind].values()) > 500, "names")
    fewer = {**tables(), "state": {name: row for name, row in attributes.STATE.items() if name != "epoch"}}
    same(unmarked(RECORDED, fewer), ["state: TrainerState.epoch"], "a row that is taken away")
    for kind, table in tables().items():
        for name, row in table.items():
            holds(row.use in (attributes.APPLIED, attributes.NEUTRAL, attributes.REFUSED), f"{kind} {name}")
            holds(row.why or row.use == attributes.APPLIED, f"{kind} {name} has no reason")


def test_every_name(folder):
    """after train() every name gives a value, or a refusal that says what to do; an unknown name has a neighbor"""
    from hone import Refused
    from hone.trl import attributes
    trainer = sft(folder / "out")
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    objects = {"trainer": trainer, "arguments": trainer.args, "state": trainer.state, "accelerator": trainer.accelerator, "model": trainer.model}
    needs = ("transformers", "torch", "peft")  # of this process, which the tests' Python has not
    for kind, table in tables().items():
        for name, row in table.items():
            try:
                value = getattr(objects[kind], name)
            except Refused as error:
                holds(f".{name}]" in str(error) and "do:" in str(error) or any(need in str(error) for need in needs), f"{kind} {name}: {error}")
                holds(row.use == attributes.REFUSED or any(need in str(error) for need in needs), f"{kind} {name} is {row.use}: {error}")
            except ModuleNotFoundError as error:
                holds(error.name in needs, f"{kind} {name}: {error}")
            except AttributeError as error:  # an option of another method, an adapter's configuration
                of_others = name in attributes.OPTIONS and not hasattr(trainer.args, attributes.OPTIONS[name])
                holds(of_others or name in ("ref_model", "reward_funcs", "reward_processing_classes"), f"{kind} {name}: {error}")
            else:
                holds(row.use != attributes.REFUSED, f"{kind} {name} is refused, and gives {value!r}")
    raises(AttributeError, "Did you mean 'save_model'?", lambda: trainer.save_modle)
    raises(AttributeError, "Did you mean 'is_main_process'?", lambda: trainer.accelerator.is_main_proces)
    raises(AttributeError, "Did you mean 'generate'?", lambda: trainer.model.generat)
    holds(not hasattr(trainer.model, "module") and not hasattr(trainer, "_own"), "what TRL has not either")


def test_options_of_trl(folder):
    """every option of TRL's configs is an attribute of hone's"""
    from hone import trl
    from hone.trl import options
    for name, method in options.METHODS.items():
        made = getattr(trl, f"{name}Config")()
        recorded = json.loads((SOURCE / f"tests/fixtures/config/trl_{method}_options.json").read_text(encoding="utf-8"))["options"]
        config = [key for key, row in recorded.items() if row["class"] in (f"{name}Config", "TrainingArguments")]
        same([key for key in config if not hasattr(made, key)], [], name)


def test_settled(folder):
    """where an option is None, TRL's trainers have the value that it means"""
    from hone import trl
    made = trl.GRPOTrainer(TINY, "think_format_reward", trl.GRPOConfig(output_dir=str(folder / "out"), **QUICK, num_generations=2, epsilon=0.3),
                           train_dataset=PROMPTS)
    same((made.max_tool_calling_iterations, made.num_generations_eval, made.epsilon_high, made.chat_template_kwargs), (sys.maxsize, 2, 0.3, {}), "GRPO")
    made.max_tool_calling_iterations = 3
    same((made.max_tool_calling_iterations, made.args.max_tool_calling_iterations), (3, 3), "set")
    pairs = [{"prompt": "a", "chosen": "b", "rejected": "c"}]
    made = trl.DPOTrainer(TINY, args=trl.DPOConfig(output_dir=str(folder / "out"), loss_type=["sigmoid", "sft"]), train_dataset=pairs)
    same((made.loss_types, made.loss_weights), (["sigmoid", "sft"], [1.0, 1.0]), "DPO")
    for rows, only in ((TEXTS, False), ([{"prompt": "a", "completion": "b"}], True)):
        made = trl.SFTTrainer(TINY, trl.SFTConfig(output_dir=str(folder / "out")), train_dataset=rows)
        same((made.completion_only_loss, made.args.completion_only_loss), (only, None), "SFT")


def test_own_numbers(folder):
    """what a function of this process appends to trainer._metrics is in the next record, as its mean"""
    from hone import trl
    seen = []

    def scores(completions, **_):
        trainer._metrics["train"]["mine"] += [1.0, 2.0]
        seen.extend(completions)
        return [float(len(text)) for text in completions]

    args = trl.GRPOConfig(output_dir=str(folder / "out"), **{**QUICK, "max_steps": 2}, num_generations=2, max_completion_length=8, **LORA)
    trainer = trl.GRPOTrainer(TINY, scores, args, train_dataset=PROMPTS)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    same([entry.get("mine") for entry in trainer.state.log_history if "loss" in entry], [1.5, 1.5], f"means, of {len(seen)} completions")
    same(sum(map(len, trainer._metrics["train"].values())), 0, "noted once")


def test_own_generate(folder):
    """another function in the place of the model's generate, which TRL would sample with, is refused where a trainer samples"""
    from hone import Refused
    from hone.trl import refusals

    class Model:
        def generate(self):
            return None

        def forward(self):
            return None

        parameters = named_parameters = forward

    Model.generate.__module__ = "transformers.generation.utils"
    one, wrapped = Model(), Model()
    wrapped.get_base_model = lambda: one
    for model in (None, one, wrapped):
        refusals.refuse_own_generate(model, "GRPOTrainer")
    one.generate = print
    for model, whose in ((one, "of the model"), (wrapped, "of the model"), (type("Own", (Model,), {"generate": test_settled})(), "of its class")):
        error = raises(Refused, "never calls it", lambda model=model: refusals.refuse_own_generate(model, "GRPOTrainer"))
        holds(whose in str(error) and "rollout_func" in str(error), error)


def test_own_layers(folder):
    """a layer of another class, a forward in the place of another, and a hook are refused by the module's name; those of libraries are not"""
    from hone import Refused
    from hone.trl import own_layers

    class Module:
        def __init__(self, **inside):
            self.inside, self._forward_hooks, self._backward_pre_hooks = inside, {}, {}

        def named_modules(self, prefix=""):
            yield prefix, self
            for name, module in self.inside.items():
                yield from module.named_modules(f"{prefix}.{name}".strip("."))

    Module.__module__ = "transformers.models.llama.modeling_llama"

    def make_inputs_require_grad(*_):
        return None

    of_a_library = types.FunctionType((lambda *_: None).__code__, {"__name__": "accelerate.hooks"})
    Module.forward = types.FunctionType((lambda *_: None).__code__, {"__name__": "transformers.models.llama.modeling_llama"})
    imitated = functools.wraps(Module.forward)(lambda *_: None)
    decorated = types.FunctionType(of_a_library.__code__, {"__name__": "torch.utils"})
    decorated.__wrapped__ = test_set
    model = Module(layers=Module(mlp=Module()))
    mlp = model.inside["layers"].inside["mlp"]
    model._forward_hooks[0], mlp._forward_hooks[1] = make_inputs_require_grad, of_a_library
    mlp.forward = of_a_library
    helpful = type("Helpful", (Module,), {"count": test_set, "__init__": Module.__init__, "save_pretrained": test_set})()
    helpful._forward_hooks[0] = functools.partial(of_a_library, 1)
    for one in (None, object(), model, helpful):
        own_layers.refuse(one, "model")
    changes = (("mlp", Module(), "_forward_hooks", {0: test_set}, "a forward hook, test_set"),
               ("mlp", Module(), "_forward_hooks", {0: functools.partial(test_set, 1)}, "a forward hook, partial"),
               ("mlp", Module(), "_backward_pre_hooks", {0: print, 1: test_set}, "a backward pre-hook"),
               ("mlp", Module(), "forward", test_set, "in the place of its forward"),
               ("mlp", Module(), "forward", imitated, "in the place of its forward"),
               ("mlp", Module(), "forward", decorated, "in the place of its forward"),
               ("mlp", Module(), "_loss_function", test_set, "another loss_function"),
               ("mlp", type("Own", (Module,), {"__module__": Module.__module__, "forward": test_set})(), "training", True, "of its forward"),
               ("mlp", type("Mine", (Module,), {"named_modules": Module.named_modules})(), "training", True, "the class Mine of"))
    for name, module, attribute, value, words in changes:
        setattr(module, attribute, value)
        model.inside["layers"].inside[name] = module
        error = raises(Refused, "never calls this", lambda: own_layers.refuse(model, "GRPOTrainer.model"))
        holds(words in str(error) and "GRPOTrainer.model.layers.mlp" in str(error), error)


def test_set(folder):
    """what is set after the trainer was made is used by train(), or refused"""
    from hone import Refused
    trainer = sft(folder / "out", max_steps=5)
    trainer.args.max_steps = 2
    trainer.max_length = 3
    for name, value, text in (("optimizer", object(), "optim"), ("data_collator", print, "batches"), ("compute_metrics", print, "reward function"),
                              ("model", object(), "make a trainer"), ("compute_loss", print, "loss_type"), ("processing_class", "x", "pass it")):
        raises(Refused, text, lambda name=name, value=value: setattr(trainer, name, value))
    raises(Refused, "save the model", lambda: setattr(trainer.model, "lm_head", None))
    raises(Refused, "set options", lambda: setattr(trainer.accelerator, "device", "cuda"))
    trainer.mine = 1
    same(trainer.train().global_step, 2, "max_steps")
    said = (folder / "out/inputs/run.yaml").read_text()
    holds("max_steps: 2" in said and "max_length: 3" in said, said)
    trainer.args.output_dir = str(folder / "other")
    raises(Refused, "before the trainer is made", trainer.train)


def test_device(folder):
    """the option device, use_cpu and the former no_cuda, in args and in what the program is given"""
    from hone import HoneError, trl

    @dataclasses.dataclass
    class Mine(trl.SFTConfig):
        mine: int = 0

    for kind in (trl.SFTConfig, Mine):
        for settings, device, given in (({}, "cpu", {}), ({"device": "cuda:1"}, "cuda:1", {"device": "cuda:1"}),
                                        ({"use_cpu": True}, "cpu", {"use_cpu": True}), ({"no_cuda": True}, "cpu", {"no_cuda": True}),
                                        ({"no_cuda": True, "device": "cuda"}, "cpu", {"no_cuda": True, "device": "cuda"})):
            args = kind(output_dir="out", **settings)
            same([str(args.device), args.n_gpu], [device, int(device.startswith("cuda"))], f"{kind.__name__} {settings}")
            same({name: value for name, value in args.settings().items() if name != "output_dir"}, given, f"{kind.__name__} {settings}, settings")
    args = trl.GRPOConfig(output_dir="out")
    args.device = "cuda"
    holds(str(args.device) in ("cuda", "cuda:0") and args.settings()["device"] == "cuda", "device is set afterwards")
    every = {field.name: getattr(trl.SFTConfig(), field.name) for field in dataclasses.fields(trl.SFTConfig)}
    same(trl.SFTConfig(**{**every, "output_dir": "out", "device": "cpu"}).settings(), {"output_dir": "out"}, "what HfArgumentParser passes is not set")
    trainer = sft(folder / "both", device="cuda", use_cpu=True)
    raises(HoneError, "expected device or use_cpu", trainer.train)
    raises(HoneError, "Did you mean 'cuda'?", sft(folder / "wrong", device="cudda").train)
    trainer = sft(folder / "out", use_cpu=True)
    same([str(one.device) for one in (trainer.args, trainer.accelerator, trainer.model)], ["cpu"] * 3, "where it is")
    same(trainer.train().global_step, 1, "use_cpu")


# ---- scripts

def test_whole_script(folder):
    """what open-r1's and the handbook's scripts do around train() works without transformers"""
    trainer = sft(folder / "out", eval_dataset=TEXTS[:2])
    args = trainer.args
    same([str(args.device), args.n_gpu, args.local_rank, args.world_size, args.process_index, args.get_process_log_level()], ["cpu", 0, -1, 1, 0, 30],
         "questions to args")
    same((args.fp16, args.no_cuda, args.logging_dir, args.torch_compile), (False, False, None, False), "former names")
    with args.main_process_first(desc="rows"), trainer.accelerator.main_process_first():
        pass
    trainer.model.config.use_cache = False
    holds(trainer.model.gradient_checkpointing_enable() is trainer.model, "gradient checkpointing")
    trainer.model.print_trainable_parameters()
    result = trainer.train()
    metrics = {**result.metrics, "train_samples": 4}
    for split in ("train", "eval"):
        trainer.log_metrics(split, metrics)
        trainer.save_metrics(split, metrics)
        metrics = {**trainer.evaluate(), "eval_samples": 2}
    metrics_of_run, history = metrics, list(trainer.state.log_history)
    trainer.save_state()
    if trainer.accelerator.is_main_process:
        trainer.create_model_card(dataset_name="me/rows", tags=["open-r1"])
        trainer.model.config.use_cache = True
        trainer.model.config.save_pretrained(str(folder / "out"))
    same(trainer.evaluate(TEXTS[:2])["eval_loss"], metrics_of_run["eval_loss"], "the adapter's folder with a config.json is still an adapter's")
    trainer.accelerator.wait_for_everyone()
    trainer.save_model(str(folder / "saved"))
    trainer.accelerator.unwrap_model(trainer.model).save_pretrained(str(folder / "model"))
    trainer.end()
    written = json.loads((folder / "out/all_results.json").read_text())
    holds({"train_loss", "train_samples", "eval_loss"} <= set(written), written)
    same(json.loads((folder / "out/trainer_state.json").read_text())["global_step"], 1, "trainer_state.json")
    same(type(trainer.state).load_from_json(folder / "out/trainer_state.json").log_history, history, "read again")
    card = (folder / "out/README.md").read_text()
    holds('- "open-r1"' in card and '- "me/rows"' in card and "library_name: peft" in card, card)
    same(json.loads((folder / "out/config.json").read_text())["use_cache"], True, "config.json")
    same(sorted(path.name for path in (folder / "model").iterdir()), ["README.md", "adapter_config.json", "adapter_model.safetensors", "config.json"],
         "files of the model")
    holds((folder / "saved/tokenizer.json").is_file(), "save_model has the tokenizer")
    trained, count = trainer.model.get_nb_trainable_parameters()
    same((trained, count, trainer.get_num_trainable_parameters()), (896, 896 + 86336, 896), "parameters")


def test_configuration(folder):
    """a changed configuration is saved with a full model, or refused before the run"""
    from hone import Refused
    trainer = sft(folder / "out", use_peft=False)
    trainer.model.generation_config.eos_token_id = 7
    trainer.model.config.use_cache = False
    trainer.train()
    same(json.loads((folder / "out/generation_config.json").read_text())["eos_token_id"], 7, "set before")
    same(json.loads((folder / "out/config.json").read_text())["use_cache"], False, "use_cache")
    trainer.model.generation_config.eos_token_id = 9
    trainer.save_model(folder / "saved")
    same(json.loads((folder / "saved/generation_config.json").read_text())["eos_token_id"], 9, "set after")
    changed = sft(folder / "other")
    changed.model.config.rms_norm_eps = 1e-3
    raises(Refused, "model.config.rms_norm_eps", changed.train)
    holds(not (folder / "other").exists(), "nothing was written")


def test_frozen(folder):
    """tensors that a script has frozen are not trained: the others' names become an option"""
    from hone import Refused
    from hone.trl import models
    tensor = lambda trained: type("Tensor", (), {"requires_grad": trained})()
    model = lambda *trained, files=9: type("Model", (), {
        "named_parameters": lambda self: [(f"layers.{n}", tensor(one)) for n, one in enumerate(trained)],
        "state_dict": lambda self: {f"layers.{n}": None for n in range(files)}})()
    same(models.trained_parameters(model(True, True), "SFTTrainer"), {}, "nothing is frozen")
    same(models.trained_parameters(model(False, True, False), "SFTTrainer"), {"unfrozen_parameters": [r"layers\.1$"]}, "names")
    raises(Refused, "2 with requires_grad=False: layers.0, layers.1", lambda: models.trained_parameters(model(False, False), "SFTTrainer"))
    raises(Refused, "names of its files", lambda: models.trained_parameters(model(False, True, files=1), "SFTTrainer"))


def test_again(folder):
    """the same script runs again over its own folder, and is resumed there, after what it wrote around train()"""
    for peft in (True, False):
        output = folder / f"out-{peft}"
        for more in ({}, {"overwrite_output_dir": True}, {"max_steps": 2, "resume_from_checkpoint": True}, {"overwrite_output_dir": True}):
            more = dict(more)
            resume = more.pop("resume_from_checkpoint", None)
            trainer = sft(output, save_strategy="steps", save_steps=1, use_peft=peft, **more)
            trainer.model.config.use_cache = False
            trainer.train(resume_from_checkpoint=resume)
            trainer.save_state()
            trainer.model.config.use_cache = True
            trainer.model.config.save_pretrained(str(output))
            trainer.save_model(str(output))
    config = folder / "out-False/config.json"
    config.write_text(config.read_text() + "\n")
    raises(Exception, "config.json", sft(folder / "out-False", use_peft=False, overwrite_output_dir=True).train)


def test_before(folder):
    """before train() what needs a trained model says so, and what needs transformers too"""
    from hone import Refused
    trainer = sft(folder / "out")
    for name in ("generate", "state_dict", "parameters", "forward", "eval"):
        raises(Refused, "install them", lambda name=name: getattr(trainer.model, name))
    for call in (trainer.model.merge_and_unload, lambda: trainer.model.save_pretrained(folder / "x")):
        raises(Refused, "install them", call)
    for call in (trainer.save_model, trainer.get_learning_rates):
        raises(Refused, "call train() first", call)
    same(list(folder.iterdir()), [], "files")


def test_unasked(folder):
    """a run whose model nobody asks for imports neither torch nor transformers, with callbacks and evaluate() too"""
    code = f"""
import sys
sys.path[:0] = [{str(SOURCE / "python")!r}, {str(SOURCE / "tests/python")!r}]
from checks import QUICK, TEXTS, TINY
from hone import trl
class Looks(trl.TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **kwargs):
        assert model is not None
args = trl.SFTConfig(output_dir={str(folder / "out")!r}, use_peft=True, lora_r=2, max_steps=1, **QUICK)
trainer = trl.SFTTrainer(TINY, args, train_dataset=TEXTS, eval_dataset=TEXTS[:2], callbacks=[Looks])
trainer.train()
trainer.evaluate()
trainer.save_model({str(folder / "saved")!r})
heavy = [name for name in ("torch", "transformers", "peft", "datasets", "hone.trl.data_helpers") if name in sys.modules]
assert not heavy, heavy
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    same(ended.returncode, 0, ended.stderr[-2000:])


def test_during(folder):
    """a callback gets the model, and what it cannot do there is refused at the first step"""
    from hone import Refused
    seen = []

    class Looks:
        def on_step_end(self, args, state, control, model=None, **kwargs):
            seen.append(model.config.vocab_size)
            model.generate("x")

    trainer = sft(folder / "out", callbacks=[Looks()], max_steps=5)
    raises(Refused, "train()", trainer.train)
    same(seen, [384], "the model's configuration")


def test_subclass(folder):
    """a script's own fields on a config are the script's, and the others are the run's"""
    from hone import trl

    @dataclasses.dataclass
    class Mine(trl.SFTConfig):
        benchmarks: list = dataclasses.field(default_factory=list)
        system_prompt: str = None
        wandb_project: str = None

    made = Mine(output_dir="o", learning_rate=1e-3, benchmarks=["x"], system_prompt="Be short.")
    same(made.settings(), {"output_dir": "o", "learning_rate": 1e-3}, "settings")
    same((made.benchmarks, made.system_prompt, made.max_steps), (["x"], "Be short.", -1), "attributes")
    (read,) = trl.TrlParser(Mine).parse_args_and_config(["--output_dir", "p", "--benchmarks", "a", "b", "--max_steps", "3"])
    same((read.settings(), read.benchmarks), ({"output_dir": "p", "max_steps": 3}, ["a", "b"]), "of a command line")


def test_copies(folder):
    """configs are copied, replaced and pickled, and none of their texts has a token"""
    import copy
    import pickle
    from hone import trl
    made = trl.SFTConfig("o", learning_rate=1e-3, hub_token="hf_secret")
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), dataclasses.replace(made)):
        same((again.settings(), again == made), (made.settings(), True), "a copy")
    same(dataclasses.replace(made, output_dir="p").output_dir, "p", "replaced")
    for text in (repr(made), made.to_json_string(), str(made.to_dict())):
        holds("hf_secret" not in text and "<HUB_TOKEN>" in text, text)


def test_ranks(folder):
    """in a launcher's process the questions to the accelerator have its answers"""
    before = dict(os.environ)
    try:
        os.environ.update(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1")
        trainer = sft(folder / "out")
        one = trainer.accelerator
        same((one.process_index, one.num_processes, one.is_main_process, trainer.is_world_process_zero(), trainer.args.should_save), (1, 2, False, False, False),
             "rank 1 of 2")
        with one.split_between_processes([1, 2, 3]) as part:
            same(part, [3], "its part")
        trainer.save_metrics("train", {"loss": 1.0})
        trainer.create_model_card()
        holds(not (folder / "out").exists(), "only the first process writes")
    finally:
        os.environ.clear()
        os.environ.update(before)


# ---- tokenizers, formatting_func

class Tokenizer:
    """What hone asks of a transformers tokenizer, with the files of a folder."""

    def __init__(self, folder=TINY, more_tokens=(), **changes):
        self.name_or_path, self.changes, self.more = folder, changes, list(more_tokens)

    @classmethod
    def from_pretrained(cls, folder):
        return cls(folder)

    def get_vocab(self):
        known = json.loads((pathlib.Path(TINY) / "tokenizer.json").read_text())["model"]["vocab"]
        return {**known, **{token: 384 + at for at, token in enumerate(self.more)}}

    def save_pretrained(self, folder):
        shutil.copy(f"{TINY}/tokenizer.json", folder)
        config = json.loads((pathlib.Path(TINY) / "tokenizer_config.json").read_text())
        (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps({**config, **self.changes}))


def test_tokenizer(folder):
    """a tokenizer that was changed in memory is the run's, and one that was not is the folder's"""
    from hone import Refused
    plain = sft(folder / "plain", processing_class=Tokenizer())
    holds("tokenizer_name_or_path" not in plain._settings, "the model's own")
    loaded = sft(folder / "loaded", processing_class=Tokenizer(use_cache=False, truncation=True))
    holds("tokenizer_name_or_path" not in loaded._settings, "arguments of from_pretrained that change nothing")
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    trainer = sft(folder / "out", processing_class=Tokenizer(chat_template=template, padding_side="left"))
    holds(not (folder / "out").exists(), "written before train()")
    trainer.train()
    holds((folder / "out/inputs/tokenizer/tokenizer.json").is_file(), "the run's")
    saved = json.loads((folder / "out/tokenizer_config.json").read_text())
    same(saved.get("chat_template") or (folder / "out/chat_template.jinja").read_text(), template, "the result's template")
    same(trainer.tokenizer.changes["padding_side"], "left", "the object that was given")
    trainer.evaluate(TEXTS[:1])
    raises(Refused, "'<new>' (384)", lambda: sft(folder / "new", processing_class=Tokenizer(more_tokens=["<new>"], pad_token="<new>")))
    nameless = sft(folder / "nameless", processing_class=Tokenizer(folder=""))
    holds(nameless._settings["tokenizer_name_or_path"].endswith("inputs/tokenizer"), "one that was made in memory")
    processor = type("Processor", (Tokenizer,), {"image_processor": 1})()
    raises(Refused, "processor.tokenizer", lambda: sft(folder / "images", processing_class=processor))
    slow = type("Slow", (Tokenizer,), {"save_pretrained": lambda self, to: (pathlib.Path(to) / "vocab.txt").write_text("a")})(folder="")
    raises(Refused, "a fast tokenizer", lambda: sft(folder / "slow", processing_class=slow))


def test_truncation_in_memory(folder):
    """the cutting and padding of the last call of a tokenizer are not the run's"""
    from hone.trl import tokenizers
    known = json.dumps({"truncation": {"max_length": 2}, "padding": None, "model": {"vocab": {"é": 0}}}, ensure_ascii=False).encode()
    same(json.loads(tokenizers.without_batches(known)), {"truncation": None, "padding": None, "model": {"vocab": {"é": 0}}}, "tokenizer.json")
    same(tokenizers.without_batches(b'{"truncation": null}'), b'{"truncation": null}', "bytes of one without")


def test_formatting(folder):
    """formatting_func with a list, without a text, beside completion_only_loss and beside tokenized rows"""
    from hone import Refused, trl
    rows = [{"prompt": f"ask {n}", "completion": f" get {n}", "n": n} for n in range(4)]

    def made(function, data=rows, **more):
        args = trl.SFTConfig(output_dir=str(folder / "out"), **{**QUICK, "max_steps": 1, **LORA, **more})
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            out = trl.SFTTrainer(TINY, args, train_dataset=data, formatting_func=function)
        return out, [str(one.message) for one in said]

    raises(Refused, "completion_only_loss", lambda: made(lambda row: "x", completion_only_loss=True))
    raises(Refused, "no longer calls it with batches", made(lambda row: ["x", "y"])[0].train)
    raises(Refused, "row 3", made(lambda row: None if row["n"] == 3 else "x")[0].train)
    raises(Refused, "a dict", made(lambda row: {"text": "x"})[0].train)
    trainer, said = made(lambda row: f"# {row['prompt']}{row['completion']}")
    holds(len(said) == 1 and "whole text" in said[0], said)
    for column in ("messages", "conversations"):
        _, told = made(lambda row: "x", data=[{column: [{"role": "user", "content": "q"}]}])
        holds(len(told) == 1 and f"TRL 1.16 trains on {column}" in told[0], told)
    trainer.train()
    same((folder / "out/inputs/train.jsonl").read_text().splitlines()[1], '{"text": "# ask 1 get 1"}', "row")
    same(made(lambda row: "x", data=TEXTS)[1], [], "rows of text")
    changing = type("Rows", (list,), {"format": {"type": "custom"}})(TEXTS)
    raises(Refused, "data.map(function)", lambda: made(None, data=changing))
    tokens = [{"input_ids": [3, 5, 6], "labels": [-100, 5, 6], "completion_mask": [0, 1, 1], "assistant_masks": [0, 1, 1], "attention_mask": [1, 1, 1]}]
    holds("not called" in made(lambda row: "x", data=tokens)[1][0], "tokenized rows are named")
    from hone.trl import refusals
    from hone.trl import rows as written
    written.write(tokens, folder / "rows.jsonl", "train_dataset", refusals.formatting(lambda row: "x", "text"))
    same(json.loads((folder / "rows.jsonl").read_text()), tokens[0], "tokenized rows stay")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hone")
    parser.add_argument("only", nargs="*", help="names of tests, without test_")
    given = parser.parse_args()
    if given.hone:
        os.environ["HONE_PROGRAM"] = str(pathlib.Path(given.hone).resolve())
    tests = Tests()
    for name, function in list(globals().items()):
        if name.startswith("test_") and (not given.only or name[5:] in given.only):
            with tempfile.TemporaryDirectory() as folder:
                tests.run([function], pathlib.Path(folder))
    return 1 if tests.failed else 0


sys.exit(main())
