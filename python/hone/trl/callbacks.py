"""TRL's callbacks, called in the caller's process while the program waits: state is read, control.should_training_stop is obeyed."""
import dataclasses
import json
import math
import pathlib
import warnings

from hone.errors import Refused
from hone.trl import attributes, machine

EVENTS = ("on_init_end", "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_step_begin", "on_substep_end",
          "on_pre_optimizer_step", "on_optimizer_step", "on_step_end", "on_log", "on_evaluate", "on_prediction_step", "on_predict", "on_save",
          "on_push_begin")


@dataclasses.dataclass
class TrainerState:
    """What transformers' TrainerState has of a run. Changing it changes nothing in the program."""
    epoch: float = 0.0
    global_step: int = 0
    max_steps: int = 0
    logging_steps: float = 10
    eval_steps: float = None
    save_steps: float = 500
    train_batch_size: int = None
    num_train_epochs: float = 0
    num_input_tokens_seen: int = 0
    total_flos: float = 0
    log_history: list = dataclasses.field(default_factory=list)
    best_metric: float = None
    best_global_step: int = None
    best_model_checkpoint: str = None
    is_local_process_zero: bool = dataclasses.field(default_factory=lambda: machine.local_rank() == 0)
    is_world_process_zero: bool = dataclasses.field(default_factory=lambda: machine.rank() == 0)
    is_hyper_param_search: bool = False
    trial_name: str = None
    trial_params: dict = None
    stateful_callbacks: dict = dataclasses.field(default_factory=dict)

    def __getattr__(self, name):
        return attributes.missing(attributes.STATE, name, "trainer.state")

    def save_to_json(self, json_path):
        text = json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True, default=str) + "\n"
        pathlib.Path(json_path).write_text(text, encoding="utf-8")

    @classmethod
    def load_from_json(cls, json_path):
        """Of the trainer_state.json of a checkpoint, hone's or transformers'."""
        values = json.loads(pathlib.Path(json_path).read_text(encoding="utf-8"))
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})

    def compute_steps(self, args, max_steps):
        """As transformers: shares of the run become steps."""
        for name in ("logging_steps", "eval_steps", "save_steps"):
            value = getattr(args, name)
            if value is not None:
                setattr(self, name, math.ceil(max_steps * value) if value < 1 else value)


@dataclasses.dataclass
class TrainerControl:
    """should_training_stop ends the run after this step, saved. The other wishes have no effect; a warning says so."""
    should_training_stop: bool = False
    should_epoch_stop: bool = False
    should_save: bool = False
    should_evaluate: bool = False
    should_log: bool = False


class TrainerCallback:
    """The base of callbacks, for those who have no transformers: every method does nothing."""


def _nothing(self, args, state, control, **kwargs):
    pass


for _event in EVENTS:
    setattr(TrainerCallback, _event, _nothing)


def checked(callback, trainer):
    """An instance; Refused for one that is no callback."""
    callback = callback() if isinstance(callback, type) else callback
    if not any(hasattr(callback, event) for event in EVENTS):
        raise Refused(f"{trainer}, callbacks", "objects as transformers' TrainerCallback", f"a {type(callback).__name__}")
    return callback


class Callbacks:
    """Calls all of them, in order."""

    def __init__(self, callbacks, trainer):
        self.trainer = trainer
        self.control = TrainerControl()
        self.all = []
        self.warned = set()
        for callback in callbacks or ():
            self.add(callback)

    def add(self, callback):
        self.all.append(checked(callback, type(self.trainer).__name__))

    def remove(self, callback):
        """Takes out a callback, or the first of a class; it, or None."""
        for at, one in enumerate(self.all):
            if one is callback or (isinstance(callback, type) and isinstance(one, callback)):
                return self.all.pop(at)
        return None

    # transformers' CallbackHandler has these names.
    add_callback, remove_callback, pop_callback = add, remove, remove

    @property
    def callbacks(self):
        return self.all

    @property
    def callback_list(self):
        return "\n".join(type(one).__name__ for one in self.all)

    def call(self, event, **more):
        """Whether one of them wants the training to stop."""
        for callback in self.all:
            method = getattr(callback, event, None)
            if method is None:
                continue
            returned = method(self.trainer.args, self.trainer.state, self.control, model=self.trainer._trained.shown(),
                              processing_class=self.trainer._given_tokenizer, optimizer=None, lr_scheduler=None, train_dataloader=None,
                              eval_dataloader=None, **more)
            if isinstance(returned, type(self.control)):
                self.control = returned
            self.note_wishes(callback)
        return self.control.should_training_stop

    def note_wishes(self, callback):
        for wish in ("should_epoch_stop", "should_save", "should_evaluate", "should_log"):
            if getattr(self.control, wish, False):
                setattr(self.control, wish, False)
                if wish not in self.warned:
                    self.warned.add(wish)
                    warnings.warn(f"hone: {type(callback).__name__} sets control.{wish}, which has no effect: save_steps, eval_steps and "
                                  "logging_steps decide it", stacklevel=2)
