"""What scripts do with a trainer beside train(): evaluate, save, push, write metrics and a card."""
import collections.abc
import json
import os
import pathlib
import warnings

from hone.errors import Refused
from hone.trl import machine, models, options, own_files, references, reward_models, streams, tokenizers
from hone.trl.evaluation import compares, evaluated, is_evaluation, refuse_unseen
from hone.trl.loaders import loader
from hone.trl.model_card import card
from hone.trl.model_files import FILES, copy_files
from hone.trl.rows import is_named

# Attributes that only some of TRL's trainers have.
_ROUTED = ("aux_loss_enabled",)
TRL_HAS = {"SFT": _ROUTED, "Reward": (), "CPO": (), "ORPO": (), "Distillation": (), "GKD": (), "OnlineDPO": ("ref_model",),
           **dict.fromkeys(("DPO", "KTO", "GRPO", "GMPO", "RLOO"), (*_ROUTED, "ref_model"))}
# What a run's folder holds of a tokenizer, for save_model.
TOKENIZER_FILES = ("tokenizer*", "special_tokens_map.json", "vocab*", "merges.txt", "added_tokens.json", "chat_template*",
                   "additional_chat_templates")


def entry_of(record):
    return {name: value for name, value in record.items() if name != "performance"}


class Results:
    """The part of a trainer that reads what the run has written."""

    # ---- evaluation

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        """The metrics of the evaluation data: those of the last step, if the run ended with an evaluation, else of a pass over them."""
        data = self._eval_rows if eval_dataset is None else eval_dataset
        if isinstance(data, str) and isinstance(self._eval_rows, dict) and data in self._eval_rows:
            data = {data: self._eval_rows[data]}  # as transformers: one of the trainer's, by its name
        if data is None:
            raise Refused(f"{type(self).__name__}.evaluate", "eval_dataset", "none", "pass it to the trainer or to evaluate()")
        refuse_unseen(self, eval_dataset)
        streams.refuse_precomputed(self.args, data, f"{type(self).__name__}.evaluate")
        last = next((entry for entry in reversed(self.state.log_history) if is_evaluation(entry)), None)
        current = last is not None and last["step"] == self.state.global_step and eval_dataset is None and not isinstance(data, dict)
        if not current:
            last = evaluated(self, data)
            self.state.log_history.append(dict(last))
            logs = {name: value for name, value in last.items() if name != "step"}
            self.callback_handler.call("on_prediction_step")
            self.callback_handler.call("on_log", logs=dict(logs))
            self.callback_handler.call("on_evaluate", metrics=dict(logs))
        return {metric_key_prefix + name[4:] if name.startswith("eval_") else name: value for name, value in last.items() if name != "step"}

    def _trained_model(self):
        folder = str(self._result_folder())
        return {"adapter_name_or_path": folder} if (pathlib.Path(folder) / "adapter_config.json").exists() else {"model_name_or_path": folder}

    # ---- files

    def _result_folder(self):
        folder = pathlib.Path(self._stopped_in) if self._stopped_in else self._folder
        if not any((folder / name).exists() for name in ("adapter_config.json", "config.json")):
            raise Refused(f"{type(self).__name__}", "a model that train() has written", f"none in {folder}", "call train() first")
        return folder

    def save_model(self, output_dir=None, _internal_call=False):
        """Copies the trained adapter or model, with its tokenizer, to `output_dir`; in the run's own folder it is already."""
        source = self._result_folder()
        target = pathlib.Path(output_dir) if output_dir is not None else self._folder
        if not self.is_world_process_zero():
            return
        for name in ("model_name_or_path", "tokenizer_name_or_path", "adapter_name_or_path"):
            read = (self._ran or self._settings).get(name)
            if read and target.exists() and os.path.exists(read) and target.samefile(read):
                raise Refused(f"{type(self).__name__}.save_model", "a folder apart from what the run reads", f"{target}, which is {name}",
                              "name another folder: the base is never written over")
        if not (target.exists() and target.samefile(source)):
            copy_files(source, target, FILES + TOKENIZER_FILES)
        self._trained.write_changes(target)

    def create_model_card(self, model_name=None, dataset_name=None, tags=None):
        """README.md in output_dir, with the names and tags of TRL's card; push_to_hub() uploads it as it is."""
        if not self.is_world_process_zero():
            return
        base = str(self._trained.name_or_path)
        several = [tags] if isinstance(tags, str) else list(tags or ())
        facts = {"name": model_name or self.hub_model_id.rpartition("/")[2], "base": None if os.path.exists(base) else base, "dataset": dataset_name,
                 "tags": [*several, *self._trained.model_tags], "method": self._name, "full": not self._settings.get("use_peft"),
                 "hub_model_id": self.hub_model_id, "metrics": self._last_metrics()}
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "README.md").write_text(card(**facts), encoding="utf-8")

    def _last_metrics(self):
        out = {}
        for entry in self.state.log_history:
            out.update((name, value) for name, value in entry.items() if isinstance(value, float) and "runtime" not in name and "per_second" not in name)
        return {name: out[name] for name in sorted(out) if name != "epoch"}

    def push_to_hub(self, commit_message=None, blocking=True, token=None, revision=None, **card_facts):
        """Uploads the adapter, its tokenizer and the model card, as `hone push` does. A name, a data set or tags are the card's, as in TRL."""
        if commit_message not in (None, "End of training"):
            warnings.warn(f"hone: {type(self).__name__}.push_to_hub: commit_message is not used: `hone push` writes its own", stacklevel=2)
        facts = {name: value for name, value in card_facts.items() if name in ("model_name", "dataset_name", "tags") and value is not None}
        if facts and self._result_folder() == self._folder:
            self.create_model_card(**facts)
        return self._push(None, token, revision, None)

    def _push(self, repository, token, revision, private):
        if not self.is_world_process_zero():
            return ""
        words = ["push", str(self._result_folder())]
        self.callback_handler.call("on_push_begin")
        for name, value in (("hub_model_id", repository or self.args.hub_model_id), ("hub_token", token or self.args.hub_token),
                            ("hub_revision", revision or self.args.hub_revision),
                            ("hub_private_repo", self.args.hub_private_repo if private is None else private)):
            if value is not None:
                words += [f"--{name}", str(value).lower() if isinstance(value, bool) else str(value)]
        text = options.printed(*words)
        print(text, end="")
        return text.strip().splitlines()[-1] if text.strip() else ""

    @property
    def hub_model_id(self):
        return self.args.hub_model_id or pathlib.PurePath(self._settings["output_dir"]).name

    # ---- metrics

    def metrics_format(self, metrics):
        """Numbers of few digits, times as a clock, as transformers prints them."""
        out = {}
        for name, value in metrics.items():
            if name.endswith("_runtime") and isinstance(value, (int, float)):
                minutes, seconds = divmod(value, 60)
                hours, minutes = divmod(int(minutes), 60)
                out[name] = f"{hours}:{minutes:02}:{seconds:05.2f}"
            else:
                out[name] = round(value, 4) if isinstance(value, float) else value
        return out

    def log_metrics(self, split, metrics):
        if not self.is_world_process_zero():
            return
        print(f"***** {split} metrics *****")
        for name, value in sorted(self.metrics_format(metrics).items()):
            print(f"  {name} = {value:.4f}" if isinstance(value, float) else f"  {name} = {value}")

    def save_metrics(self, split, metrics, combined=True):
        """{split}_results.json; `combined`: all_results.json too, with those of every split."""
        if not self.is_world_process_zero():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        everything = self._folder / "all_results.json"
        writes = [(self._folder / f"{split}_results.json", metrics)]
        if combined:
            before = json.loads(everything.read_text(encoding="utf-8")) if everything.is_file() else {}
            writes.append((everything, {**before, **metrics}))
        for path, values in writes:
            path.write_text(json.dumps(values, indent=4, sort_keys=True, default=float) + "\n", encoding="utf-8")

    def save_state(self):
        """trainer_state.json in output_dir; checkpoints have theirs."""
        if self.is_world_process_zero():
            self._folder.mkdir(parents=True, exist_ok=True)
            self.state.save_to_json(self._folder / "trainer_state.json")
            own_files.claim(self._folder, "trainer_state.json")

    def get_num_trainable_parameters(self):
        return self._trained.get_nb_trainable_parameters()[0]

    def get_learning_rates(self):
        """Of the last step that was logged."""
        rates = [entry["learning_rate"] for entry in self.state.log_history if "learning_rate" in entry]
        if not rates:
            raise Refused(f"{type(self).__name__}.get_learning_rates", "a step that was logged", "none yet", "call train() first")
        return rates[-1:]

    def get_total_train_batch_size(self, args=None):
        args = args or self.args
        return args.per_device_train_batch_size * args.gradient_accumulation_steps * machine.world_size()

    def num_examples(self, dataloader):
        """Of a data set; loaders there are none."""
        data = getattr(dataloader, "dataset", dataloader)
        if not isinstance(data, collections.abc.Sized) or is_named(data):
            raise Refused(f"{type(self).__name__}.num_examples", "rows of this process", f"a {type(data).__name__}", "the start page has their number")
        return len(data)

    # ---- objects

    @property
    def processing_class(self):
        """The tokenizer that the trainer was given; else that of the run's result or model, opened once by transformers."""
        if self._given_tokenizer is None or is_named(self._given_tokenizer):
            name = self._given_tokenizer if self._given_tokenizer is not None else \
                self._settings.get("tokenizer_name_or_path") or self._settings["model_name_or_path"]
            self._given_tokenizer = tokenizers.opened(name, self.args, f"{type(self).__name__}.processing_class")
        return self._given_tokenizer

    @processing_class.setter
    def processing_class(self, value):
        """TRL's SFT has made its tokens by then; methods that sample would use another, and so does the run that begins."""
        raise Refused(f"{type(self).__name__}.processing_class", "the tokenizer that the trainer was made with", f"a {type(value).__name__}",
                      "pass it to the trainer: processing_class=tokenizer")

    tokenizer = processing_class

    @property
    def chat_template(self):
        return self.processing_class.chat_template

    @property
    def pad_token_id(self):
        return self.processing_class.pad_token_id

    padding_value = pad_token_id

    @property
    def eos_token_ids(self):
        """The tokenizer's, and those of the model's generation_config."""
        own = self.processing_class.eos_token_id
        more = getattr(self._trained.generation_config, "eos_token_id", None)
        more = more if isinstance(more, list) else [] if more is None else [more]
        return more if own in more else [own, *more]

    @property
    def model(self):
        """The caller's own object, or what stands for the model until somebody asks for its tensors (trained_model.py)."""
        return self._trained.current()

    model_wrapped = model

    @property
    def ref_model(self):
        """The object that was passed; else, where TRL has a copy of the model, the model as it began, opened by transformers once. One that
        moves has its values of the end."""
        if "ref_model" not in TRL_HAS[self._name]:
            raise AttributeError(f"{type(self).__name__} has no attribute 'ref_model'.")
        if is_named(self._given_reference) and self._settings.get("ref_model"):
            self._given_reference = self._trained.named_reference(f"{type(self).__name__}.ref_model")
            self._take_reference()
        elif self._given_reference is None or is_named(self._given_reference):
            alone = not self._settings.get("use_peft") and compares(self) and not getattr(self.args, "precompute_ref_log_probs", False)
            self._given_reference = self._trained.reference(f"{type(self).__name__}.ref_model") if alone else None
            self._take_reference()
        return self._given_reference

    def _take_reference(self):
        """What moved in a run, into the object that is there."""
        if self._settings.get("sync_ref_model") and self._ran is not None and models.is_model(self._given_reference):
            references.take_moved(self._result_folder(), self._given_reference)

    @property
    def aux_loss_enabled(self):
        """Whether a model of experts has a loss of its router."""
        if "aux_loss_enabled" not in TRL_HAS[self._name]:
            raise AttributeError(f"{type(self).__name__} has no attribute 'aux_loss_enabled'.")
        config = self._trained.config.get_text_config()
        share = self.args.router_aux_loss_coef
        return hasattr(config, "output_router_logits") and (getattr(config, "router_aux_loss_coef", 0.0) if share is None else share) != 0.0

    def get_train_dataloader(self):
        """Rows of the data set; the order and the batches of a run are the program's."""
        size = self.args.per_device_train_batch_size
        return loader(self._train_rows, size, self.args.dataloader_drop_last, f"{type(self).__name__}.get_train_dataloader",
                      self.args.dataloader_num_workers)

    def get_eval_dataloader(self, eval_dataset=None):
        data = self._eval_rows if eval_dataset is None else eval_dataset
        if isinstance(self._eval_rows, dict) and isinstance(data, str):
            data = self._eval_rows[data]
        return loader(data, self.args.per_device_eval_batch_size, False, f"{type(self).__name__}.get_eval_dataloader",
                      self.args.dataloader_num_workers)

    def get_test_dataloader(self, test_dataset):
        return self.get_eval_dataloader(test_dataset)

    @property
    def compute_metrics(self):
        return self._own_metrics

    @property
    def control(self):
        return self.callback_handler.control

    @property
    def reward_func_names(self):
        several = reward_models.listed(self._given_rewards)
        return [pathlib.PurePath(one).name if is_named(one) else models.last_name(one) if models.is_model(one) else
                getattr(one, "__name__", type(one).__name__) for one in several] + self._tools.reward_names()

    # ---- callbacks, processes

    def add_callback(self, callback):
        self.callback_handler.add(callback)

    def remove_callback(self, callback):
        self.callback_handler.remove(callback)

    def pop_callback(self, callback):
        return self.callback_handler.remove(callback)

    def is_world_process_zero(self):
        return machine.rank() == 0

    def is_local_process_zero(self):
        return machine.local_rank() == 0

    def end(self):
        """Loggers end with the run."""
