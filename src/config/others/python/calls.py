# The calls of a script: its own functions and classes, those of Python that are read, and things of other modules.


class Reader(Expressions):
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
            elif isinstance(value, Made):
                named["**"] = (why_not(value, at), place)
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
            return call_method(callee.of, callee.function, values, names, at)
        if isinstance(callee, External):
            return self.call_external(callee.name, given, named, at)
        if isinstance(callee, Made):
            return self.call_made(callee, given, named, at)
        if isinstance(callee, Either):
            return self.call_either(callee, given, named, at)
        for one in [*values, *names.values()]:
            self.taint(one, Unknown(f"a function that is not known has it in line {at}", at))
        return why_not(callee, at)

    def call_either(self, callee, given, named, at):
        kinds = [v for v, _ in callee.values]
        if all(isinstance(v, Made) and v.name == ".train" and isinstance(v.base, Made) for v in kinds):
            self.trained.append((Either([(v.base, l) for v, l in callee.values], callee.at), at))
            return Unknown("it is what training gives", at)
        if all(isinstance(v, (External, Class)) for v in kinds):
            return Either([(self.call(v, given, named, at), at) for v in kinds], callee.at)
        return why_not(callee, at)

    # ---- the script's own

    def call_own(self, function, given, named, at):
        node = function.code.node
        self.called.add(node)
        if len(self.frames) > MOST_CALLS:
            return Unknown(f"{function.name} is called {MOST_CALLS} deep", at)
        if isinstance(node, ast.AsyncFunctionDef) or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node)):
            return Unknown(f"{function.name} is a generator or async, which is not read", at)
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

    def bound(self, function, given, named, at):
        of, names, named = function.code.node.args, {}, dict(named)
        places = [*getattr(of, "posonlyargs", []), *of.args]
        defaults = dict(zip([a.arg for a in places[len(places) - len(of.defaults):]], of.defaults))
        defaults.update({a.arg: d for a, d in zip(of.kwonlyargs, of.kw_defaults) if d is not None})
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
                elif one.arg in defaults:
                    names[one.arg] = self.of_option(self.eval(defaults[one.arg]), one.arg, at)
                else:
                    option = self.of_decorators(function, one.arg, at)
                    names[one.arg] = Unknown(f"{function.name} is called without {one.arg}", at) if option is ABSENT else option
        if of.kwarg is not None:
            names[of.kwarg.arg] = named if star is None else star
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
        if outside is not None and not of.is_data:
            made = self.keep(outside.name, given, named, at)
            made.own = (of.name, sorted({n for c in lineage if isinstance(c, Class) for n, v in c.names.items() if isinstance(v, Function)}))
            return made
        made = Instance(of)
        if outside is not None:
            made = self.keep(outside.name, [], {}, at)
            made.args = {n: (self.field(d, n, l), l) for n, d, l in of.fields}
            made.args.update(named)
            return made
        if of.is_data:
            for (name, default, line), value in zip(of.fields, [v for v, _ in given] + [ABSENT] * len(of.fields)):
                made.names[name] = value if value is not ABSENT else named[name][0] if name in named else self.field(default, name, line)
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
        for ending, answer in GPU.items():
            if name == ending or name.endswith("." + ending):
                self.note(at, f"{last}() asks the GPU: taken as a GPU of today answers")
                return answer
        if name in ("os.getenv", "os.environ.get") and values:
            return self.environment(values[0], values[1] if len(values) > 1 else ABSENT, at)
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
            return why_not(values[0] if values else None, at)
        if name == "copy.deepcopy" and values and (is_plain(values[0]) or isinstance(values[0], (Made, Instance))):
            return copy.deepcopy(values[0])
        if name == "argparse.Namespace" or name == "types.SimpleNamespace":
            made = Instance(Class(None, last, [], {}, [], False))
            made.names = {n: v for n, v in names.items() if n != "**"}
            return made
        if name in ("fire.Fire", "typer.run") and values and isinstance(values[0], Function):
            self.note(at, "the command line may set other values: the defaults are taken")
            return self.call_own(values[0], [], {}, at)
        if root == "builtins":
            return self.call_builtin(last, values, names, given, named, at)
        if root not in KNOWN:
            why = Unknown(f"{name} of a file that is not read has it in line {at}", at)
            for one in [*values, *names.values()]:
                self.taint(one, why)
        made = self.keep(name, given, named, at)
        if name.endswith(("FastLanguageModel.from_pretrained", "FastModel.from_pretrained", "FastVisionModel.from_pretrained")):
            return made, Made("tokenizer", at, base=made)
        return made

    def call_builtin(self, name, values, names, given, named, at):
        if name == "print":
            return None
        if name == "getattr" and len(values) == 2 and isinstance(values[0], Made) and isinstance(values[1], str):
            return self.attribute(values[0], values[1], at)
        if name == "getattr" and len(values) >= 2 and isinstance(values[1], str):
            return values[0].names.get(values[1], values[2] if len(values) > 2 else Unknown(f"{values[1]} is not set", at)) \
                if isinstance(values[0], Instance) else why_not(values[0], at)
        if name == "setattr" and len(values) == 3 and isinstance(values[1], str):
            self.set_attribute(values[0], values[1], values[2], at)
            return None
        if name in ("exec", "eval"):
            return Unknown(f"{name}() is not read", at)
        if "**" in names:
            return names["**"]
        found = plain_call(name, values, names, at)
        if found is NotImplemented:
            return Unknown(f"{name}() of these values is not read", at)
        return found

    def keep(self, name, given, named, at):
        made = Made(name, at, dict(named), list(given))
        if name.split(".")[-1].endswith("Trainer"):
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
                self.trained.append((of, at))
                return Unknown("it is what training gives", at)
            if last.endswith("ArgumentParser") or last == "TrlParser" or of.name == ".add_argument_group":
                return self.call_parser(of, name, given, named, at)
            if name.startswith(".set_"):
                of.touched = Unknown(f"{name[1:]}() in line {at} changes it", at)
            if name == ".read_text" and of.name == "open":
                return of
        return Made(name, at, dict(named), list(given), base=of)

    def call_parser(self, parser, name, given, named, at):
        if name == ".add_argument":
            parser.args.setdefault("options", ([], at))[0].append((given, named, at))
            return None
        if name in (".add_argument_group", ".add_mutually_exclusive_group"):
            return parser
        if name == ".set_defaults":
            parser.args.setdefault("defaults", ({}, at))[0].update({n: v for n, (v, _) in named.items()})
            return None
        if name in (".parse_args", ".parse_known_args"):
            self.note(at, "the command line may set other values: the defaults are taken")
            made = self.parsed(parser, at)
            return (made, []) if name == ".parse_known_args" else made
        if name.startswith(".parse_"):
            self.note(at, "the command line may set other values: the defaults are taken")
            kinds = parser.plain[0][0] if parser.plain else parser.args.get("dataclass_types", (None, at))[0]
            kinds = list(kinds) if isinstance(kinds, (list, tuple)) else [kinds]
            made = tuple(self.call(kind, [], {}, at) if isinstance(kind, (Class, External)) else why_not(kind, at) for kind in kinds)
            for one in made:
                if isinstance(one, Made):
                    one.args["(command line)"] = (True, at)
            rest = named.get("return_remaining_strings", (False, at))[0] is True
            return (*made, []) if rest else made
        return Made(name, at, dict(named), list(given), base=parser)

    def parsed(self, parser, at):
        made = Instance(Class(None, "Namespace", [], {}, [], False))
        for given, named, line in parser.args.get("options", ([], at))[0]:
            words = [v for v, _ in given if isinstance(v, str)]
            names = {n: v for n, (v, _) in named.items()}
            word = next((w for w in words if w.startswith("--")), words[0] if words else "")
            key = names.get("dest", word.lstrip("-").replace("-", "_"))
            action = names.get("action")
            if not isinstance(key, str) or not key:
                continue
            if names.get("required") is True or (word and not word.startswith("-") and names.get("nargs") not in ("?", "*")):
                made.names[key] = self.required(word, line)
            elif "default" in names:
                made.names[key] = self.converted(names["default"], names.get("type"), line)
            else:
                made.names[key] = {"store_true": False, "store_false": True}.get(action) if isinstance(action, str) else None
        made.names.update(parser.args.get("defaults", ({}, at))[0])
        return made

    def converted(self, value, kind, at):
        """argparse converts a default that is text."""
        if isinstance(value, str) and isinstance(kind, (External, Function)):
            return self.call(kind, [(value, at)], {}, at)
        return value
