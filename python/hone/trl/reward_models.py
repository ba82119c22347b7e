"""Reward models as objects, and the tokenizers that a script names for them: as folders that the program opens."""
import os
import pathlib
import shutil
import tempfile
import time

from hone.errors import HoneError, Refused
from hone.trl import machine, models, states, tokenizers
from hone.trl.rows import is_named

FOLDER = "reward_models"
ATTRIBUTES = ("reward_funcs", "reward_processing_classes")  # of trainers that sample
PATIENCE = 120  # seconds that a process waits for the first one's folder


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def classes_of(given, functions, trainer):
    """A tokenizer, or None, for each of reward_funcs."""
    several, count = listed(given), len(listed(functions))
    if given is None:
        return [None] * count
    if len(several) != count:
        raise Refused(f"{trainer}, reward_processing_classes", f"one for each of reward_funcs: the number of reward processing classes ({len(several)}) "
                      f"must match the number of reward functions ({count})", f"{len(several)}", "pass a list with None for what is no model")
    for one in several:
        if one is not None and not is_named(one):
            tokenizers.refuse_processor(one, f"{trainer}, reward_processing_classes")
    return several


def is_reward_model(one):
    """A name may be a model's, a built-in function's or a file's: one with a configuration is a model."""
    return models.is_model(one) or (is_named(one) and models.folder_named(os.fspath(one)) is not None)


def needs_tokenizer(one, tokenizer, where):
    """Whether the tokenizer is another than that of the model's own folder."""
    if tokenizer is None:
        return False
    own = os.fspath(one) if is_named(one) else models.base_of(one).name_or_path
    if is_named(tokenizer):
        return not models.is_same(os.fspath(tokenizer), own)
    if models.is_same(str(getattr(tokenizer, "name_or_path", "")), own):
        return tokenizers.change_of(tokenizer, where, tokenizers.SILENT + tokenizers.OF_BATCHES)[1] is None
    return True


def of_folder(folder, target):
    """A model's files, linked; without its tokenizer."""
    target.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file() and path.name.startswith(("config.json", "model", "generation_config", "adapter_")):
            os.symlink(path.resolve(), target / path.name)


def put_tokenizer(one, tokenizer, target, where):
    """The tokenizer's files beside the model; those of the model's own folder where none was named."""
    if tokenizer is None:
        tokenizer = states.tokenizer_of(models.base_of(one), where)
    if is_named(tokenizer):
        folder = models.folder_named(os.fspath(tokenizer))
        if folder is None:
            raise Refused(where, "a tokenizer, or a folder of one", os.fspath(tokenizer), "pass AutoTokenizer.from_pretrained(NAME)")
        for path in folder.iterdir():
            if path.is_file() and path.name.startswith(("tokenizer", "special_tokens", "chat_template", "vocab", "merges", "added_tokens")):
                shutil.copy2(path, target / path.name)
        return
    for name, data in tokenizers.saved(tokenizer, where).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)


def files_in(folder):
    """{name: where a link points, or the bytes}."""
    return {path.relative_to(folder).as_posix(): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def put_whole(partial, target):
    """The first process of a host puts its folder in the place of an earlier run's; the others wait until they see what they have made too. A
    folder that is already the same stays: another process may be reading it."""
    several = machine.world_size() > 1
    own, until = files_in(partial) if several else {}, time.monotonic() + PATIENCE
    while True:
        try:
            if several and target.is_dir() and files_in(target) == own:
                return
        except FileNotFoundError:
            pass  # it is being exchanged
        if machine.local_rank() == 0:
            partial.chmod(0o755)
            shutil.rmtree(target, ignore_errors=True)
            os.replace(partial, target)
            return
        if time.monotonic() > until:
            raise HoneError(f"[{target}] expected the reward model that the first process writes\n  found:  another one, {PATIENCE} s later\n  do:     "
                            "make the trainer with the same reward_funcs and output_dir in every process")
        time.sleep(0.05)


def written(functions, classes, specs, inputs, trainer):
    """The specs of the program, with a folder of `inputs` for each model that is otherwise than its own folder."""
    out, where = list(specs), f"{trainer}, reward_funcs"
    for at, (one, tokenizer) in enumerate(zip(listed(functions), classes)):
        if not is_reward_model(one):
            continue
        target = pathlib.Path(inputs) / FOLDER / str(at)
        config, tensors = states.differences(one, "Reward") if models.is_model(one) else ("", "")
        if not config and not tensors and not needs_tokenizer(one, tokenizer, where):
            continue
        folder = models.folder_named(os.fspath(one)) if is_named(one) else models.folder_of(models.base_of(one))
        states.refuse_own_folder(folder, target, where)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{at}-", dir=target.parent))
        try:
            if config or tensors:
                states.write(one, partial, where, links=tensors in ("", "head"))
            else:
                of_folder(folder, partial)
            put_tokenizer(one, tokenizer, partial, f"{trainer}, reward_processing_classes")
            put_whole(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        out[at] = os.fspath(target)
    return out


class RewardModels:
    """The part of a trainer that has reward_funcs, and of each model among them its tokenizer, opened when somebody asks."""
    _given_rewards, _reward_classes = None, None

    def _require_rewards(self, name):
        if self._name not in models.SAMPLERS:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    @property
    def reward_funcs(self):
        """What the trainer was given, as a list, then a function for each class of environments that has get_reward."""
        self._require_rewards("reward_funcs")
        return [*listed(self._given_rewards), *self._tools.reward_functions()]

    @property
    def reward_processing_classes(self):
        self._require_rewards("reward_processing_classes")
        classes = self._reward_classes or []
        for at, one in enumerate(listed(self._given_rewards) if classes else []):
            known = classes[at]
            if (known is None and is_reward_model(one)) or is_named(known):
                name = known if known is not None else one if is_named(one) else models.base_of(one).name_or_path
                classes[at] = tokenizers.opened(name, None, f"{type(self).__name__}.reward_processing_classes")
        return [*classes, *(None for _ in self._tools.reward_functions())]
