"""What trainer.model is: the model that the program trains, as far as this process has to do with it.

Its configuration and its files are here; its tensors are in the program, and after train() in the result's folder. A model that the caller has
passed is trainer.model itself. Of a name, what wants tensors opens them with transformers and PEFT, once, when it is asked; after that
trainer.model is the object that was opened. train() copies its result into the object (live.py).
"""
import copy
import os
import pathlib

from hone.errors import Refused
from hone.trl import adapters, attributes, live, machine, models, own_files, states
from hone.trl.model_files import FILES, NAMES_PADDING, align, copy_files, elements, members, name_padding, read_config, read_json, write_json

# TRL's words for its trainers, where they are not the class's own name.
TAGS = {"Reward": "reward-trainer", "OnlineDPO": "online-dpo"}

# Arguments of save_pretrained that change nothing here: which process writes, of which state, in files of which size.
OF_SAVING = ("is_main_process", "state_dict", "save_function", "max_shard_size", "variant", "token", "save_peft_format", "selected_adapters",
             "save_embedding_layers", "save_original_format", "repo_id", "private", "commit_message")


class TrainedModel:
    """`given`: the object that the trainer was given, or None where it was a name."""

    def __init__(self, trainer, given):
        self._trainer, self._given = trainer, given
        self._kept = {}     # "config", "generation_config": the objects that scripts change
        self._before = {}   # their members when they were asked for
        self._live = None   # the object of this process: the caller's, or one that was opened
        self._is_new = False  # an adapter that was made here, with which the run begins
        self._tags = ["trl", TAGS.get(trainer._name, trainer._name.lower())]
        if given is not None and hasattr(given, "named_parameters"):
            self.config, self.generation_config  # what a script changes from now on

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        row = attributes.MODEL.get(name)
        if row is not None and row.value is attributes.CALLED:
            return self._same
        if name in attributes.LOADED:
            return getattr(self._open(name), name)
        if self._live is not None and (row is None or row.use != attributes.REFUSED):
            return getattr(self._live, name)
        return attributes.missing(attributes.MODEL, name, self._where)

    def __setattr__(self, name, value):
        row = attributes.MODEL.get(name)
        if not name.startswith("_") and (row is None or row.use != attributes.NEUTRAL):
            attributes.refuse(name, self._where, attributes.Row(attributes.REFUSED, attributes.SAVED))
        object.__setattr__(self, name, value)

    def __call__(self, *arguments, **named):
        return self._open("__call__")(*arguments, **named)

    def __deepcopy__(self, memo):
        return copy.deepcopy(self._open("deepcopy"), memo)

    @property
    def __class__(self):
        """For isinstance(trainer.model, PeftModel), without opening anything."""
        return live.class_of(self) if "_tags" in vars(self) and live.is_at_hand() else TrainedModel

    def __repr__(self):
        return f"<the model that {type(self._trainer).__name__} trains: {self.name_or_path}>"

    @property
    def _where(self):
        return f"{type(self._trainer).__name__}.model"

    def _same(self, *arguments, **named):
        return self

    # ---- the object of this process

    def current(self):
        """What trainer.model is: the object, where there is one. While the program trains it has the values of before, and is not shown."""
        if self._trainer.is_in_train:
            return self
        if self._live is None and self._given is not None:
            self._take_given()
        return self if self._live is None else self._live

    def shown(self):
        """What callbacks get: nothing is opened for them."""
        return self if self._live is None or self._trainer.is_in_train else self._live

    def here(self):
        """The object, if this process has one."""
        return self._given if self._live is None else self._live

    def _take_given(self):
        """The caller's object; with peft_config the PeftModel around it, as TRL makes it."""
        settings = self._trainer._settings
        if models.is_wrapped(self._given) or not settings.get("use_peft"):
            self._live = self._given
            self._tag(self._live)
            return
        self._wrap(self._given)

    def _wrap(self, base):
        settings = self._trainer._settings
        made = live.wrapped(base, self._trainer._peft_config, settings, self._trainer._name, self._where)
        self._is_new = not settings.get("adapter_name_or_path")
        self._hold(made)

    def _hold(self, made):
        """`made` becomes trainer.model, with what a script has changed in the configurations that it was shown before."""
        for name, values in self.changed().items():
            target = getattr(models.base_of(made), name, None)
            for key, value in values.items():
                setattr(target, key, value)
            if target is not None:
                self._kept[name] = target
        self._tag(made)
        self._live = made

    def _tag(self, made):
        if hasattr(made, "add_model_tags"):
            made.add_model_tags(self._tags)

    def _open(self, name):
        """The object, opened now where there is none."""
        where = f"{self._where}.{name}"
        if self._trainer.is_in_train:
            instead = "use it after train(); state and logs are there"
            if self._trainer.rollout_func is not None:
                instead = "hone.trl.generate_rollout_completions(trainer, prompts) samples with it as it is now; after train() it is here"
            raise Refused(where, "a model in this process", "a run that goes on: the program has it", instead)
        if self.current() is not self:
            return self._live
        if self._trainer.state.global_step > 0:
            self._hold(self._fresh(name))
        else:
            base = live.open_base(self._trainer._settings, self._trainer._name, self.config, where)
            if self._trainer._settings.get("use_peft"):
                self._wrap(base)
            else:
                self._hold(base)
        return self._live

    def written(self, inputs, settings, where):
        """The options that name the model as it is when a run begins: none of a name, nor of an object that is what its folder holds."""
        model = self._live if self._live is not None else self._given
        if model is None:
            return {}
        own = self._trainer._settings
        out = states.written(model, inputs, self._trainer._name, where)
        if out and "tokenizer_name_or_path" not in settings and not own.get("tokenizer_name_or_path"):
            out["tokenizer_name_or_path"] = states.tokenizer_of(models.base_of(model), where)
        return out if own.get("use_peft") or own.get("unfrozen_parameters") else {**out, **models.trained_parameters(model, where)}

    def base_settings(self):
        """The options with the base that the last run had, which may be one of its inputs."""
        ran = self._trainer._ran or {}
        return {**self._trainer._settings, **{name: ran[name] for name in ("model_name_or_path", "model_revision", "dtype") if name in ran}}

    def reference(self, where):
        """The model as the run begins or began, which a full training compares with."""
        if self._given is not None and self._trainer.state.global_step == 0:
            return copy.deepcopy(self._given).requires_grad_(False)
        return live.open_base(self.base_settings(), self._trainer._name, self.config, where).requires_grad_(False)

    def named_reference(self, where):
        """Another model, whose name was passed."""
        settings = {**self._trainer._settings, "model_name_or_path": self._trainer._settings["ref_model"], "model_revision": None}
        return live.open_base(settings, self._trainer._name, read_config(settings["ref_model"], "config.json", "AutoConfig"), where).requires_grad_(False)

    def begin(self, settings, resumes):
        """The settings of a run that begins with the adapter that was made here."""
        if self._given is not None and self._live is None and settings.get("use_peft"):
            live.needed(f"{self._where}, which is trained in place", "peft")  # now, and not when the run is done
        if self._live is None or not self._is_new or machine.world_size() > 1 or not live.begins_with_it(settings):
            return settings  # an adapter of its own, which is another draw of the same function
        folder = self._trainer._folder / "inputs/adapter"
        if resumes and not (folder / "adapter_config.json").is_file():
            return settings
        if not resumes:
            models.write_adapter(self._live, folder)
        own = {*adapters.LORA.values()}
        return {**{name: value for name, value in settings.items() if name not in own}, "adapter_name_or_path": os.fspath(folder)}

    def take_result(self):
        """Trains the object in place: after train() it has what the program has written."""
        if self._live is None and self._given is None:
            return
        machine.barrier()
        self._is_new = False
        live.take(self._trainer._result_folder(), self.current(), self._trainer._name)

    # ---- configuration

    def _configuration(self, name, file, loader):
        if name not in self._kept:
            given = models.base_of(self._given) if self._given is not None else None
            found = getattr(given, name, None) if given is not None else read_config(self.name_or_path, file, loader)
            if found is None and name == "generation_config" and "transformers" in type(self.config).__module__:
                from transformers import GenerationConfig
                found = GenerationConfig.from_model_config(self.config)
            self._kept[name], self._before[name] = found, members(found)
        return self._kept[name]

    @property
    def config(self):
        return self._configuration("config", "config.json", "AutoConfig")

    @property
    def generation_config(self):
        return self._configuration("generation_config", "generation_config.json", "GenerationConfig")

    def changed(self):
        """{"config": {name: value}, "generation_config": {...}} of what a script has changed here."""
        out = {}
        for name, config in self._kept.items():
            now, before = members(config), self._before[name]
            out[name] = {key: value for key, value in now.items() if key not in before or before[key] != value}
        return out

    def write_changes(self, folder):
        """Into the configuration files of a full model; an adapter has none. Both have a tokenizer; a checkpoint's own files stay as they are."""
        if self._trainer._name in NAMES_PADDING and os.fspath(folder) != os.fspath(self._trainer._stopped_in or ""):
            name_padding(folder, self._trainer.args)
        if not (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
            return
        if self._trainer._tokenizer.files is not None:
            align(folder, self._trainer._given_tokenizer)
        changes = self.changed()
        if self._given is not None:  # its generation_config may have been changed before the trainer was made
            changes["generation_config"] = {**models.changed_generation(models.base_of(self._given)), **changes.get("generation_config", {})}
        for name, values in changes.items():
            path = folder / f"{name}.json"
            if values:
                write_json(path, {**read_json(path), **values})
        own_files.claim(folder, "config.json", "generation_config.json")

    @property
    def name_or_path(self):
        return self._trainer._settings["model_name_or_path"]

    @property
    def dtype(self):
        import torch
        value = live.opening(self._trainer._settings, self._trainer._name)["dtype"]
        name = str(value).removeprefix("torch.")
        return getattr(torch, name if name != "auto" else "float32")

    @property
    def device(self):
        return self._trainer.args.device

    @property
    def peft_config(self):
        """{"default": LoraConfig}, as PEFT has it; a model without an adapter has no such attribute."""
        if not self._trainer._settings.get("use_peft"):
            raise AttributeError(f"{self._where} has no attribute 'peft_config': no adapter is trained")
        if self._live is not None and models.is_wrapped(self._live):
            return self._live.peft_config
        if self._trainer._peft_config is not None:
            return {"default": self._trainer._peft_config}
        live.needed(f"{self._where}.peft_config", "peft")
        return {"default": live.lora_config(None, self._trainer._settings, self._trainer._name)}

    @property
    def model_tags(self):
        return list(self._tags)

    def add_model_tags(self, tags):
        """For the model card, as create_model_card writes it."""
        self._tags += [tag for tag in ([tags] if isinstance(tags, str) else tags) if tag not in self._tags]

    # ---- the result

    def _result(self, name):
        try:
            return self._trainer._result_folder()
        except Refused:
            instead = f"call train() first; before it, load {self.name_or_path} with transformers"
            raise Refused(f"{self._where}.{name}", "a model that train() has written", "none yet", instead) from None

    def save_pretrained(self, save_directory, push_to_hub=False, safe_serialization=True, **named):
        """The files of the trained adapter or model, as PEFT and transformers save them: float32, without the tokenizer."""
        unknown = next((name for name in named if name not in OF_SAVING), None)
        if unknown is not None:
            raise TypeError(f"save_pretrained() got an unexpected keyword argument {unknown!r}." + attributes.near(unknown, OF_SAVING))
        if self._trainer.state.global_step == 0:
            self._open("save_pretrained").save_pretrained(save_directory, push_to_hub=push_to_hub, **named)
            return
        if not safe_serialization:
            raise Refused(f"{self._where}.save_pretrained, safe_serialization", "safetensors", "False", "leave it out: hone writes no pickles")
        source, target = self._result("save_pretrained"), pathlib.Path(save_directory)
        if not (target.exists() and target.samefile(source)):
            copy_files(source, target, FILES)
        self.write_changes(target)
        if push_to_hub:
            self._trainer.push_to_hub()

    def push_to_hub(self, repo_id=None, token=None, private=None, revision=None, **ignored):
        self._result("push_to_hub")
        return self._trainer._push(repo_id, token, revision, private)

    def get_nb_trainable_parameters(self):
        """(trained, all) of the result's files and its base's; before train() of a model without memory."""
        if self._trainer.state.global_step == 0:
            return live.counted(self.config, self._trainer._peft_config, self._trainer._settings, self._trainer._name,
                                f"{self._where}.get_nb_trainable_parameters")
        folder = self._result("get_nb_trainable_parameters")
        if not (folder / "adapter_config.json").is_file():
            count = elements(models.files_of(folder))
            return count, count
        trained = elements([folder / "adapter_model.safetensors"])
        base = models.folder_named(self.name_or_path)
        files = models.files_of(base) if base is not None else []
        if not files:
            raise Refused(f"{self._where}.get_nb_trainable_parameters", "safetensors files of the base", f"none in {self.name_or_path}",
                          "the program's start page has the numbers")
        return trained, trained + elements(files)

    def num_parameters(self, only_trainable=False, exclude_embeddings=False):
        if exclude_embeddings:
            return self._open("num_parameters").num_parameters(only_trainable=only_trainable, exclude_embeddings=True)
        return self.get_nb_trainable_parameters()[0 if only_trainable else 1]

    def print_trainable_parameters(self):
        """PEFT's line; before train() and without transformers the program says it on its start page."""
        try:
            trained, count = self.get_nb_trainable_parameters()
        except Refused:
            print("trainable params: hone says them when train() begins, after `trained`")
            return
        print(f"trainable params: {trained:,d} || all params: {count:,d} || trainable%: {100 * trained / count:.4f}")

    def merge_and_unload(self, progressbar=False, safe_merge=False, adapter_names=None):
        """A transformers model with the adapter in its weights, in this process: a new one after train()."""
        model = self._fresh("merge_and_unload") if self._trainer.state.global_step > 0 else self._open("merge_and_unload")
        if not hasattr(model, "merge_and_unload"):
            return model  # all of it was trained
        return model.merge_and_unload(safe_merge=safe_merge)

    def unload(self):
        """The base model without the adapter."""
        model = self._fresh("unload")
        return model.unload() if hasattr(model, "unload") else model

    def merge_adapter(self, *arguments, **named):
        self._open("merge_adapter").merge_adapter(*arguments, **named)

    # ---- a copy of it in this process

    def _fresh(self, name):
        """The result, opened by transformers and PEFT."""
        folder, settings = self._result(name), self.base_settings()
        where = f"{self._where}.{name}"
        if self._trainer.is_in_train:
            raise Refused(where, "a model in this process", "a run that goes on: the program has it", "use it after train(); state and logs are there")
        adapter = (folder / "adapter_config.json").is_file()
        live.needed(where, "transformers", *(["peft"] if adapter else []))
        if adapter:
            import peft
            base = live.open_base(settings, self._trainer._name, self.config, where)
            opened = peft.PeftModel.from_pretrained(base, str(folder), is_trainable=True).eval()
        else:
            opened = live.open_base({**settings, "model_name_or_path": str(folder)}, self._trainer._name, self.config, where)
        return opened if str(self.device) == "cpu" else opened.to(self.device)
