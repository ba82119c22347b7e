"""Tools and environments of the calling process that the program calls (hone/caller.py). They run in the thread that called train()."""
import inspect
import os
import re
import time
import traceback
import warnings

from hone import schemas
from hone.errors import Refused
from hone.trl.functions import TIMEOUT, name_of, short

ASKS = ("tool", "make", "reset", "method", "reward")  # messages of hone.caller
LONG, SHARE = 60, 0.2  # seconds after which, and the share of time from which on, a run waits for this process's tools
MOST_CHARACTERS = 8_000_000  # of a result; the program cuts further


def schema_of(function, where):
    """ValueError where TRL's first render would raise."""
    if hasattr(function, "hone_schema"):  # of a server's tool, which says it
        return function.hone_schema
    try:
        return schemas.schema_of(function)
    except schemas.BadTool as bad:
        code = getattr(function, "__code__", None)
        place = f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code else ""
        raise Refused(f"{where}: {bad.where}{place}", bad.expected, bad.found, bad.fix) from None


def refuse_doubles(names, where):
    double = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if double is not None:
        raise Refused(where, "tools of different names", f"two are called {double}: the model could not choose",
                      "rename one of them, or leave it out")


def cut(text):
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[len(text) - half:]}"


def is_blocks(value):
    return isinstance(value, list) and all(isinstance(part, dict) and "type" in part for part in value)


def told(result):
    """A result as hone.caller reads it: its text, or blocks, of which the program shows the texts."""
    if is_blocks(result) and result:
        return [{"type": str(part["type"]), "text": str(part.get("text", ""))} for part in result]
    return cut(str(result))


def observed(result):
    """What reset returned."""
    if result is None or isinstance(result, str):
        return result
    if is_blocks(result):
        return told(result) if result else ""
    raise TypeError(f"reset returned {short(result)}, where None, a text or a list of blocks is wanted")


def place_of(error):
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if os.path.dirname(frame.filename) != os.path.dirname(__file__)]
    last = own[-1] if own else None
    return f"{os.path.basename(last.filename)}:{last.lineno} in {last.name}" if last else ""


def sampled_at_once(args):
    """Completions of a generation batch."""
    batch = args.per_device_train_batch_size * (getattr(args, "steps_per_generation", None) or args.gradient_accumulation_steps)
    return getattr(args, "generation_batch_size", None) or batch


def reward_of(kinds, is_async):
    """TRL's reward function of environments: None for those of other classes than `kinds`."""
    if is_async:
        async def get_reward(environments, **_):
            return [await one.get_reward() if type(one) in kinds else None for one in environments]
    else:
        def get_reward(environments, **_):
            return [one.get_reward() if type(one) in kinds else None for one in environments]
    return get_reward


class Environment:
    """A factory and its instances, by number: TRL's pool. The first one is made now, and tells what the others have."""

    def __init__(self, factory, where):
        if not callable(factory):
            raise Refused(where, "a class, or a function that makes an environment", f"a {type(factory).__name__}")
        self.factory = factory
        first = factory()
        self.pool = {0: first}
        names, has_reset, self.has_reward = schemas.methods_of(first)
        self.title = type(first).__name__
        if not has_reset:
            raise Refused(where, "an environment with a method `reset`: each environment instance returned by `environment_factory` must define a "
                          "callable `reset`", f"{self.title}, which has {', '.join(names) or 'no methods'}",
                          "def reset(self, **row): it gets the row's columns, and returns what the model is shown first, or None")
        self.methods, self.takes_seed = names, schemas.names_seed(first.reset)
        self.tools = [getattr(first, name) for name in names]
        self.schemas = [schema_of(tool, f"{where}: {self.title}") for tool in self.tools]

    def instance(self, number, again):
        """`again`: the one before was lost, in a process that was ended."""
        if number not in self.pool or again:
            self.pool[number] = self.factory()
        return self.pool[number]


class Tools:
    """By the names that the program calls them by: hone.caller:tools.NAME, hone.caller:environments.NAME. `functions` has what ends the run."""

    def __init__(self, functions):
        self.functions, self.where = functions, functions.trainer
        functions.tools = self
        self.tools, self.schemas, self.environments, self.keys = {}, {}, {}, {}  # keys: names of the caller's -> those of environments
        self.taken = False  # whether the trainer has these arguments
        self.rewards = []   # functions of the environments that score themselves, one a name of their classes
        self.single = True
        self.began = self.busy = 0.0  # when the program first asked, and seconds that answers have taken since
        self.told = False

    def take(self, given, settings, arguments):
        """Takes TRL's arguments out of `given`, if the trainer has them; the options that say them, beside those of `settings`."""
        if "tools" not in arguments:
            return {}
        self.taken = True
        self._take_tools(given.pop("tools", None) or [])
        factory = given.pop("environment_factory", None)
        if factory is not None:
            self._take_environments(factory)
        out = {}
        if self.tools:
            out["tools"] = [f"hone.caller:tools.{name}" for name in self.tools]
        if self.environments:
            words = {name: f"hone.caller:environments.{key}" for name, key in self.keys.items()}
            out["environment"] = words[None] if self.single else words
        if out and "tool_timeout" in settings:
            raise Refused(f"{self.where}, tool_timeout", "no such option beside tools and environments of this process",
                          str(settings["tool_timeout"]),
                          "remove it: this process answers one call after the other, and a call that waits for the others would be taken for a "
                          "late one; a file's run side by side, each with its own clock: tools: tools.py:function, environment: env.py:Class")
        if out:
            out["tool_timeout"] = TIMEOUT  # TRL waits for a tool for ever
        return out

    def _take_tools(self, tools):
        if not isinstance(tools, (list, tuple)):
            raise Refused(f"{self.where}, tools", "a list of functions", f"a {type(tools).__name__}", "tools=[function]")
        for tool in tools:
            if not callable(tool) or isinstance(tool, type):
                is_class = isinstance(tool, type)
                raise Refused(f"{self.where}, tools", "functions", f"the class {tool.__name__}" if is_class else f"a {type(tool).__name__}",
                              "environment_factory takes classes" if is_class else "")
        refuse_doubles([schemas.name_of(tool) for tool in tools], f"{self.where}, tools")
        for tool in tools:
            self.schemas[schemas.name_of(tool)] = schema_of(tool, f"{self.where}, tools")
            self.tools[schemas.name_of(tool)] = tool

    def _take_environments(self, factory):
        self.single = not isinstance(factory, dict)
        for name, one in ({None: factory} if self.single else factory).items():
            where = f"{self.where}, environment_factory" + (f"[{name!r}]" if name is not None else "")
            base = "e_" + (re.sub(r"\W", "_", str(name), flags=re.ASCII) if name is not None else name_of(one))
            key = base = re.sub(r"\W", "_", base, flags=re.ASCII)
            while key in self.environments:
                key = f"{base}_{len(self.environments)}"
            environment = Environment(one, where)
            refuse_doubles([*self.tools, *(schemas.name_of(tool) for tool in environment.tools)], where)
            self.environments[key], self.keys[name] = environment, key
        for title in self.reward_names():
            kinds = [type(one.pool[0]) for one in self.environments.values() if one.has_reward and one.title == title]
            self.rewards.append(reward_of(kinds, any(inspect.iscoroutinefunction(kind.get_reward) for kind in kinds)))

    # ---- what TRL's trainer has

    def has_reward(self):
        return any(environment.has_reward for environment in self.environments.values())

    def reward_names(self):
        """Of the extra rewards: one a class."""
        return list(dict.fromkeys(one.title for one in self.environments.values() if one.has_reward))

    def reward_functions(self):
        return self.rewards

    def by_environment(self):
        """{name: tools that a completion in this environment may call}"""
        return {name: [*self.tools.values(), *self.environments[key].tools] for name, key in self.keys.items()}

    def rows(self, train, args, where):
        """`train`, or what stands for it where the environment owns the data: an empty turn for each prompt of a batch."""
        if train is not None or not self.environments:
            return train
        if not self.single:
            raise Refused(f"{where}, train_dataset", "rows: a `dict` `environment_factory` (multiple environments) requires a `train_dataset` with "
                          "an `environment` column", "none", "pass rows whose column `environment` names one of " + ", ".join(map(repr, self.keys)))
        if (args.max_steps or 0) <= 0:
            raise Refused(f"{where}, train_dataset", "rows, or `max_steps` where the environment owns the data and returns the prompt from reset()",
                          f"max_steps={args.max_steps}", f"set it in the config: {type(args).__name__}(max_steps=...)")
        return [{"prompt": [{"role": "user", "content": ""}]} for _ in range(max(1, sampled_at_once(args) // args.num_generations))]

    def require_capacity(self, args):
        """Of servers that limit their sessions (hone.tools.openenv)."""
        for environment in self.environments.values():
            check = getattr(environment.pool[0], "_hone_capacity", None)
            if check is None:
                continue
            try:
                check(sampled_at_once(args))
            except ValueError as error:
                if not hasattr(error, "hone_fault"):
                    raise
                expected, found, cause, fix = error.hone_fault
                raise Refused(f"{self.where}, environment_factory {environment.title}", expected, found, fix) from None

    def refuse_unknown(self, data, where):
        """Rows whose environment is none of the factory's: TRL's error at the batch, now."""
        if self.single or not isinstance(data, (list, tuple)) and not hasattr(data, "column_names"):
            return
        columns = getattr(data, "column_names", None)
        names = data["environment"] if columns and "environment" in columns else [row.get("environment") for row in data if isinstance(row, dict)]
        for at, name in enumerate(names):
            if name not in self.keys:
                raise Refused(f"{where}, row {at}, column environment", f"one of {', '.join(map(repr, self.keys))}",
                              f"{name!r}, which is not among the environments", "name it in environment_factory, or correct the row")

    def attributes(self):
        """As TRL's trainer names them."""
        if not self.taken:
            return {}
        methods = [tool for environment in self.environments.values() for tool in environment.tools]
        out = {"tools": [*self.tools.values(), *methods], "_standalone_tools": [*self.tools.values()], "_multi_environment": not self.single}
        if self.environments:
            out["_env_tools"] = self.by_environment()
            out["environment_factories"] = {name: self.environments[key].factory for name, key in self.keys.items()}
        return out

    def pool(self):
        """{name: instances}"""
        return {name: [instance for _, instance in sorted(self.environments[key].pool.items())] for name, key in self.keys.items()}

    # ---- the program asks

    def listed(self):
        out = {}
        if self.tools:
            out["tools"] = [{"name": name, "schema": self.schemas[name], "module": getattr(tool, "__module__", ""),
                             "qualname": getattr(tool, "__qualname__", name)} for name, tool in self.tools.items()]
        if self.environments:
            out["environments"] = [{"key": key, "class": one.title, "reward": one.has_reward, "seed": one.takes_seed,
                                    "tools": [{"name": name, "schema": schema, "module": getattr(tool, "__module__", ""),
                                               "qualname": getattr(tool, "__qualname__", name)}
                                              for name, tool, schema in zip(one.methods, one.tools, one.schemas)]}
                                   for key, one in self.environments.items()]
        return out

    def answer(self, message):
        """The reply to `tool`, `make`, `reset`, `method` and `reward`. A tool's exception is its result; what else raises ends the run, as in TRL."""
        if self.functions.failure is not None:
            return {"raised": "an earlier call has raised"}
        begun = time.monotonic()
        try:
            return self._answer(message)
        finally:
            self._note_time(begun, time.monotonic())

    def _note_time(self, begun, now):
        """Calls are answered one after the other: says so once, where that is what a run waits for."""
        self.began = self.began or begun
        self.busy += now - begun
        if not self.told and now - self.began > LONG and self.busy > SHARE * (now - self.began):
            self.told = True
            share = round(100 * self.busy / (now - self.began))
            warnings.warn(f"hone: {self.where}: tools and environments of this process have taken {share} % of the run's time, one call after the other. "
                          "From a file they run side by side, in processes of their own: tools: tools.py:function, environment: env.py:Class",
                          stacklevel=2)

    def _answer(self, message):
        kind = message["ask"]
        try:
            if kind == "make":
                self.environments[message["key"]].instance(message["number"], message["again"])
                return {"result": None}
            if kind == "tool":
                return self._called(self.tools[message["name"]], message["arguments"])
            instance = self.environments[message["key"]].instance(message["number"], False)
            if kind == "method":
                return self._called(getattr(instance, message["name"]), message["arguments"])
            if kind == "reset":
                return {"result": observed(self.functions.result(instance.reset, message["arguments"]))}
            reward = self.functions.result(instance.get_reward, {})
            return {"result": None if reward is None else float(reward)}
        except BaseException as error:
            self.functions.failure = error
            what = message.get("name") or kind
            return {"raised": f"{what} raised {traceback.format_exception_only(type(error), error)[-1].strip()[:300]}"}

    def _called(self, function, arguments):
        try:
            return {"result": told(self.functions.result(function, arguments))}
        except Exception as error:
            return {"error": cut(str(error)), "kind": type(error).__name__, "place": place_of(error)}

    def replaced(self, arguments):
        """Arguments of a reward function: `environments`, [[name, number]] by the program, as the objects."""
        named = arguments.get("environments")
        if not self.environments or not isinstance(named, list):
            return arguments
        return {**arguments, "environments": [self.environments[self.keys[None if self.single else name]].instance(number, False)
                                              for name, number in named]}



class WithTools:
    """What of a trainer is about tools; `_tools` is its Tools."""

    def _settle_tools(self, title):
        vars(self).update(self._tools.attributes())
        self._train_rows = self._tools.rows(self._train_rows, self.args, title)
        self._tools.refuse_unknown(self._train_rows, f"{title}, train_dataset")
        self._tools.require_capacity(self.args)

    @property
    def environments(self):
        """The instances of TRL's pool, in the order of their numbers."""
        pool = self._environment_pool
        return [one for instances in pool.values() for one in instances] if pool else None

    @property
    def _environment_pool(self):
        return self._tools.pool()
