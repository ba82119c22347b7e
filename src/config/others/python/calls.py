# The calls of a script: its own functions and classes, those of Python that are read, and things of other modules.


class Reader(Parsers):
    def of_Call(self, node, at):
        callee = self.eval(node.func)
        given = [(value, at) for value in self.items(node.args)]
        named = {}
        for one in node.keywords:
            value, place = self.eval(one.value), self.at(one.value)
            if one.arg is not None:
                named[one.arg] = (value, place)
            elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
                named.update({key: (v, place) for key, v in value.items()})
            else:
                named["**"] = (why_not(value, at), place)
        return self.call(callee, given, named, at)

    def call(self, callee, given, named, at):
        """`given` and `named` hold (value, line)."""
        values, names = [v for v, _ in given], {n: v for n, (v, _) in named.items()}
        if isinstance(callee, Function):
            return self.call_own(callee, values, names, at)
        if isinstance(callee, Class):
            return self.make(callee, given, named, at)
        if isinstance(callee, Method):
            if isinstance(callee.function, Function):
                return self.call_own(callee.function, [callee.of, *values], names, at)
            if isinstance(callee.of, FileText):
                return callee.of
            return self.call_plain(callee.of, callee.function, values, names, at)
        if isinstance(callee, External):
            return self.call_external(callee.name, given, named, at)
        if isinstance(callee, Made):
            return self.call_made(callee, given, named, at)
        if isinstance(callee, Either):
            return self.call_either(callee, given, named, at)
        return self.give_up(callee, values, names, why_not(callee, at), f"a function that is not known has it in line {at}", at)

    def give_up(self, callee, values, names, found, text, at):
        """A call that is not read: it may change what it is given, and what its function reaches."""
        why = Unknown(text, at)
        for one in [callee, *values, *names.values()]:
            self.taint(one, why)
        return found

    def call_plain(self, of, name, values, names, at):
        """A method of a plain value; where it is not read, or fails, the value may be another one."""
        given = [*values, *names.values()]
        key = first_unknown(values[0]) if values else None
        looks = {dict: {"get", "items", "keys", "values", "copy"}, list: {"index", "count", "copy"}, set: {"copy", "union"}}
        kind = next((k for k in looks if isinstance(of, k)), None)
        try:
            if kind is dict and name == "get" and (key is not None or OTHERS in of and (values[0] not in of)):
                return why_not(key, at) if key is not None else of[OTHERS]
            if kind is not None and name in ("pop", "remove", "discard", "setdefault", "insert", "index", "count", "sort", "union") and key is not None:
                raise ValueError(why_not(key, at).why)
            if name in ("remove", "discard", "index", "count", "sort", "reverse", "popitem") and first_unknown(of) is not None:
                raise ValueError("an entry of it is not known")
            if kind is not None and OTHERS in names or kind is dict and OTHERS in of and name not in looks[dict] and name != "update":
                raise ValueError("names of its entries are not known")
            if name in ("update", "extend", "union") and not all(isinstance(g, (list, tuple, dict, set, range)) for g in values):
                raise ValueError(why_not(next(g for g in values if not is_plain(g)), at).why)
            if kind is not None and name not in METHODS[kind]:
                raise ValueError(f"its method {short(name, 40)} is not read")
            if kind is not None and size_of(of) + sum(map(size_of, given)) > MOST_ITEMS:
                raise ValueError("it has too many entries")
            return call_method(of, name, values, names, at)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, StopIteration) as error:
            why = Unknown(f"{short(name, 40)}() in line {at} is not read: {short(error, 120)}", at)
            for one in given if kind is None or name not in METHODS[kind] else []:
                self.taint(one, why)
            if kind is not None and name not in looks[kind]:
                self.taint(of, why)
            return why

    def call_either(self, callee, given, named, at):
        kinds = [v for v, _ in callee.values]
        if all(isinstance(v, Made) and v.name == ".train" and isinstance(v.base, Made) for v in kinds):
            trainers = [(self.to_train(v.base, given, named, at), l) for v, l in callee.values]
            self.trained.append((Either(trainers, callee.at), at, False))
            return Unknown("it is what training gives", at)
        if all(isinstance(v, External) or isinstance(v, Class) and not any(isinstance(c, Class) and "__init__" in c.names for c in self.lineage(v)) for v in kinds):
            return Either([(self.call(v, given, named, at), at) for v in kinds], callee.at)
        return self.give_up(callee, [v for v, _ in given], {n: v for n, (v, _) in named.items()}, why_not(callee, at),
                            f"one of several functions has it in line {at}", at)

    # ---- the script's own

    def call_own(self, function, given, named, at):
        node = function.code.node
        self.called.add(node)
        if len(self.frames) > MOST_CALLS:
            return self.give_up(function, given, named, Unknown(f"{function.name} is called {MOST_CALLS} deep", at), f"{function.name} has it", at)
        other = next((one for one in function.decorators if not self.is_read(one)), None)
        odd = isinstance(node, ast.AsyncFunctionDef) or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(node))
        if odd or other is not None:
            text = f"{function.name} is a generator or async, which is not read" if odd else \
                f"{function.name} is decorated with {short(name_of(other), 60)}, which is not read"
            return self.give_up(function, given, named, Unknown(text, at), text, at)
        frame = Frame(function.closure)
        frame.names = self.bound(function, given, named, at)
        self.frames.append(frame)
        value = None
        try:
            if isinstance(node, ast.Lambda):
                value = self.eval(node.body)
            else:
                self.run(node.body)
        except Returned as returned:
            value = returned.value
        except Raised:
            if not frame.returns:
                raise
            value = frame.returns.pop()[0]
        except Jump:
            value = Unknown("a loop of it ends in a way that is not read", at)
        finally:
            returns = self.frames[-1].returns
            self.frames.pop()
        for other, line in returns:
            value = merged(value, other, line, {})
        return value

    def is_read(self, decorator):
        """A decorator that gives the function itself back, or one that calls it as it is."""
        name, found = name_of(decorator), None
        if name in ("property", "staticmethod", "classmethod") or name.split(".")[-1] in ("setter", "command", "option", "argument", "wraps", "callback"):
            return True
        for names in (self.frames[-1].names, self.frames[0].names):
            found = names.get(name.split(".")[0]) if found is None else found
        root = found.name.split(".")[0] if isinstance(found, (External, Made)) else ""
        return root in (*KNOWN, "functools", "contextlib", "abc", "click", "typer", "hydra", "typing_extensions", "spaces", "modal", "ray", "enum")

    def bound(self, function, given, named, at):
        of, names, named = function.code.node.args, {}, dict(named)
        places = [*getattr(of, "posonlyargs", []), *of.args]
        for place, value in zip(places, given):
            names[place.arg] = value
        if of.vararg is not None:
            names[of.vararg.arg] = tuple(given[len(places):])
        star = named.pop("**", None)
        for one in [*places, *of.kwonlyargs]:
            if one.arg in named:
                names[one.arg] = named.pop(one.arg)
            elif one.arg not in names:
                if star is not None:
                    names[one.arg] = star
                elif one.arg in function.defaults:
                    names[one.arg] = self.of_option(function.defaults[one.arg], one.arg, at)
                else:
                    option = self.of_decorators(function, one.arg, at)
                    names[one.arg] = Unknown(f"{function.name} is called without {one.arg}", at) if option is ABSENT else option
        if of.kwarg is not None:
            names[of.kwarg.arg] = named if star is None else {**named, OTHERS: star}
        return names

    def of_decorators(self, function, name, at):
        """The default of @click.option("--name", default=3)."""
        for one in function.decorators:
            if not isinstance(one, ast.Call) or not name_of(one).endswith((".option", ".argument")):
                continue
            words = [a.value for a in one.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if name not in [word.lstrip("-").replace("-", "_") for word in words]:
                continue
            keys = {k.arg: k.value for k in one.keywords}
            if "default" in keys:
                return self.eval(keys["default"])
            return False if "is_flag" in keys else self.required(words[0], self.at(one))
        return ABSENT

    def of_option(self, value, name, at):
        """typer.Option(3, ...) as a default is 3."""
        if isinstance(value, Made) and value.name in ("typer.Option", "typer.Argument"):
            given = value.plain[0][0] if value.plain else value.args.get("default", (..., at))[0]
            return self.required(name, at) if given is ... else given
        return value

    def required(self, name, at):
        return Unknown(f"the command line gives it: {short(name, 60)} has no default", at)

    def make(self, of, given, named, at):
        """An instance of the script's class; of one that builds on another module's class a Made, with what it overrides."""
        lineage = self.lineage(of)
        outside = next((c for c in lineage if isinstance(c, External) and not c.name.startswith(("abc.", "builtins.", "typing.", "enum."))), None)
        strange = next((d for d in of.code.node.decorator_list if not self.is_read(d)), None) if of.code is not None else None
        begins = [n for c in lineage if isinstance(c, Class) for n in ("__init__", "__post_init__", "__new__", "__setattr__") if n in c.names]
        rest = named.get(OTHERS, (ABSENT, at))[0]
        if outside is not None:
            made = self.keep(outside.name, given, named, at)
            if of.is_data:
                made.args = {**{n: (self.field(d, n, l) if rest is ABSENT else rest, l) for n, d, l in of.fields}, **named}
            made.own = (of.name, sorted({n for c in lineage if isinstance(c, Class) for n, v in c.names.items() if isinstance(v, Function)}))
            if begins or strange is not None:
                made.touched = Unknown(f"its class {of.name} has " + (f"its own {begins[0]}, which is not read" if begins else "a decorator that is not read"), at)
            return made
        made = Instance(of)
        if strange is not None:
            made.names[OTHERS] = Unknown(f"class {of.name} is decorated with {short(name_of(strange), 60)}, which is not read", at)
        elif of.is_data:
            for (name, default, line), value in zip(of.fields, [v for v, _ in given] + [ABSENT] * len(of.fields)):
                value = named[name][0] if value is ABSENT and name in named else value
                made.names[name] = value if value is not ABSENT else rest if rest is not ABSENT else self.field(default, name, line)
            self.run_method(made, "__post_init__", [], {}, at)
        else:
            self.run_method(made, "__init__", [v for v, _ in given], {n: v for n, (v, _) in named.items()}, at)
        return made

    def field(self, default, name, at):
        if default is ABSENT:
            return self.required(name, at)
        if isinstance(default, Made) and default.name in ("dataclasses.field", "field"):
            if "default" in default.args:
                return default.args["default"][0]
            if "default_factory" in default.args:
                return self.call(default.args["default_factory"][0], [], {}, at)
            return self.required(name, at)
        return copy.deepcopy(default)

    def run_method(self, of, name, given, named, at):
        for one in self.lineage(of.of):
            if isinstance(one, Class) and isinstance(one.names.get(name), Function):
                self.call_own(one.names[name], [of, *given], named, at)
                return

    # ---- other modules

    def call_external(self, name, given, named, at):
        last, root = name.split(".")[-1], name.split(".")[0]
        values = [v for v, _ in given]
        names = {n: v for n, (v, _) in named.items()}
        if name.startswith(("sys.argv.", "os.environ.")) and last not in ("get", "copy", "items", "keys", "index", "count"):
            self.outside[name[:name.rindex(".")]] = Unknown(f"{name}() changes it in line {at}", at)
            return None
        for ending, answer in GPU.items():
            if name == ending or name.endswith("." + ending):
                self.note(at, f"{last}() asks the GPU: taken as a GPU of today answers")
                return answer
        if name.startswith("trl.") and last in OF_MODEL_CONFIG and len(values) == 1 and not names and is_without_adapter(values[0]):
            return None
        if name in ("os.getenv", "os.environ.get") and values:
            set_here = self.outside.get("os.environ", self.outside.get(("os.environ", values[0]) if is_plain(values[0]) and first_unknown(values[0]) is None else "", ABSENT))
            return set_here if set_here is not ABSENT else self.environment(values[0], values[1] if len(values) > 1 else ABSENT, at)
        if name in ("sys.exit", "builtins.exit", "builtins.quit"):
            raise Raised(at)
        if name in ("pathlib.Path", "os.fspath", "os.path.expanduser", "os.path.abspath") and values and isinstance(values[0], str):
            return PathText(os.path.join(*values)) if all(isinstance(v, str) for v in values) else why_not(values[0], at)
        if name == "os.path.join" and all(isinstance(v, str) for v in values) and values and "**" not in names:
            return os.path.join(*values)
        if name in ("math.ceil", "math.floor") and len(values) == 1 and isinstance(values[0], (int, float)):
            return getattr(math, last)(values[0])
        if name == "builtins.open" or name.endswith("Path.open"):
            return FileText(values[0]) if values and isinstance(values[0], str) else self.keep("open", given, named, at)
        if last in ("safe_load", "full_load", "load", "loads") and root in ("yaml", "json", "OmegaConf", "omegaconf", "ruamel"):
            path = values[0].path if values and isinstance(values[0], FileText) else values[0] if values else None
            if isinstance(path, str) and (isinstance(values[0], FileText) or "OmegaConf" in name):
                return self.file(path, at)
        if name == "dataclasses.asdict" or name == "builtins.vars":
            if values and isinstance(values[0], Instance):
                return dict(values[0].names) if last == "asdict" else values[0].names
            if not values:
                return self.frames[-1].names if len(self.frames) == 1 else {OTHERS: Unknown("vars() is not read", at)}
            return self.attribute(values[0], "__dict__", at) if isinstance(values[0], (Made, Class)) and last == "vars" else why_not(values[0], at)
        if name == "copy.deepcopy" and values and (is_plain(values[0]) or isinstance(values[0], (Made, Instance))):
            return copy.deepcopy(values[0])
        if name == "argparse.Namespace" or name == "types.SimpleNamespace":
            made = Instance(Class(None, last, [], {}, [], False))
            made.names = dict(names)
            return made
        if name in ("fire.Fire", "typer.run") and values and isinstance(values[0], Function):
            self.note(at, "the command line may set other values: the defaults are taken")
            return self.call_own(values[0], [], {}, at)
        if root == "builtins":
            return self.call_builtin(last, values, names, given, named, at)
        if root not in KNOWN:
            self.give_up(None, values, names, None, f"{name} of a file that is not read has it in line {at}", at)
        elif root in CHANGING_ROOTS and not last[:1].isupper() and last not in HARMLESS:
            self.give_up(None, values, names, None, f"{name} has it in line {at}", at)
        made = self.keep(name, given, named, at)
        if name.endswith(("FastLanguageModel.from_pretrained", "FastModel.from_pretrained", "FastVisionModel.from_pretrained")):
            return made, Made("tokenizer", at, base=made)
        return made

    def call_builtin(self, name, values, names, given, named, at):
        if name == "print":
            return None
        if name == "super":
            own = values[-1] if values else next(iter(self.frames[-1].names.values()), None)
            if isinstance(own, Instance) and any(isinstance(c, Class) for c in self.lineage(own.of)[1:]):
                self.taint(own, Unknown(f"super() in line {at} is not read", at))
        if name in ("getattr", "setattr", "delattr") and len(values) >= 2 and isinstance(values[1], str):
            if name == "setattr" and len(values) == 3 and values[1] != OTHERS:
                return self.set_attribute(values[0], values[1], values[2], at)
            if name == "getattr" and len(values) == 3 and isinstance(values[0], Instance):
                found = self.of_instance(values[0], values[1], at) if OTHERS in values[0].names or self.has(values[0], values[1]) else values[2]
                return found
            if name == "getattr" and (len(values) == 2 or isinstance(values[0], Made)):
                return self.attribute(values[0], values[1], at)
        if name in ("globals", "locals") and (name == "globals" or len(self.frames) == 1):
            return self.frames[0].names
        if name == "exec" or name == "eval" and not all(isinstance(v, str) and not set(v) & set("(:=") for v in values):
            self.taint_world(Unknown(f"{name}() in line {at} may set it", at))
        if name not in LOOKING_BUILTINS or name in ("setattr", "delattr"):
            self.give_up(None, values, names, None, f"{name}() in line {at} may change it", at)
        for one in [*values, *names.values()] if name in LOOKING_BUILTINS else []:
            if isinstance(one, Function):
                self.taint(one, Unknown(f"a function that {name}() calls in line {at} changes it", at))
        if "**" in names and name == "dict" and all(isinstance(v, dict) for v in values):
            return {**(values[0] if values else {}), **names}
        if "**" in names:
            return names["**"]
        found = plain_call(name, values, names, at)
        if found is NotImplemented:
            return Unknown(f"{name}() of these values is not read", at)
        return found

    def keep(self, name, given, named, at):
        made = Made(name, at, dict(named), list(given))
        if name.split(".")[-1].endswith("Trainer") and not name.split(".")[-1].startswith("Patch"):
            self.trainers.append(made)
        return made

    def file(self, path, at):
        """The value of a YAML or JSON file whose path is a literal; hone reads it."""
        if path in self.files:
            found = copy.deepcopy(self.files[path])
            return Unknown(found["why"], at) if isinstance(found, dict) and set(found) == {"why"} else found
        if path not in self.needs:
            self.needs.append(path)
        return Unknown(f"it comes from {short(path, 80)}", at)

    def call_made(self, callee, given, named, at):
        name, of = callee.name, callee.base
        if isinstance(of, Made):
            last = of.name.split(".")[-1]
            if name == ".train" and last.endswith(("Trainer", "train_on_responses_only")):
                self.trained.append((self.to_train(of, given, named, at), at, False))
                return Unknown("it is what training gives", at)
            if last.endswith("ArgumentParser") or last == "TrlParser" or of.name == ".add_argument_group":
                return self.call_parser(of, name, given, named, at)
            if name == ".read_text" and of.name == "open":
                return of
        word = name.split(".")[-1]
        values, names = [v for v, _ in given], {n: v for n, (v, _) in named.items()}
        moves = word == "to" and any(isinstance(v, External) and v.name.startswith("torch.") for v in [*values, *names.values()])
        if isinstance(of, Made) and (moves or word not in LOOKS):
            self.touch(of, Unknown(f"{shown_call(callee)} in line {at} changes it", at))
            self.give_up(None, values, names, None, f"{shown_call(callee)} has it in line {at}", at)
        elif isinstance(of, Made):
            for one in [*values, *names.values()]:
                if isinstance(one, Function):
                    self.taint(one, Unknown(f"a function that {shown_call(callee)} calls in line {at} changes it", at))
        return Made(name, at, dict(named), list(given), base=of)

    def to_train(self, trainer, given, named, at):
        """The trainer as it is when train() is called: what is set later does not count."""
        trainer = copy.deepcopy(trainer)
        resumed = given[0] if given else named.get("resume_from_checkpoint", named.get(OTHERS))
        inner = trainer
        while isinstance(inner, Made) and inner.name.endswith("train_on_responses_only") and (inner.plain or "trainer" in inner.args):
            inner = inner.args["trainer"][0] if "trainer" in inner.args else inner.plain[0][0]
        if resumed is not None and resumed[0] is not None and resumed[0] is not False and isinstance(inner, Made):
            inner.args["resume_from_checkpoint"] = resumed
        return trainer

    def has(self, of, name):
        return any(name in c.names for c in [of, *self.lineage(of.of)] if isinstance(c, (Class, Instance)))


LOOKING_BUILTINS = set("""isinstance issubclass hasattr getattr setattr delattr type id callable len repr str int float bool format hash dir range enumerate
    zip sorted min max sum any all abs round list dict tuple set frozenset reversed input bytes chr ord slice globals locals open
    super pow divmod exit quit""".split())


def own_nodes(node):
    """Nodes of a function that are not of a function inside it."""
    rest = list(ast.iter_child_nodes(node))
    while rest:
        one = rest.pop()
        yield one
        if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp)):
            rest += ast.iter_child_nodes(one)
