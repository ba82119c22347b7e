# The statements and expressions of a script, folded into values (values.py).

MOST_STATEMENTS, MOST_SECONDS, MOST_CALLS, MOST_TURNS = 200_000, 8, 40, 1000
GPU = {"is_bfloat16_supported": True, "is_bf16_supported": True, "is_torch_bf16_gpu_available": True, "cuda.is_available": True,
       "cuda.get_device_capability": (9, 0)}
KNOWN = ("trl", "transformers", "peft", "unsloth", "unsloth_zoo", "datasets", "torch", "accelerate", "bitsandbytes", "huggingface_hub",
         "os", "sys", "json", "yaml", "wandb", "logging", "random", "numpy", "pathlib", "argparse", "dataclasses", "typing", "builtins",
         "math", "re", "time", "warnings", "gc", "dotenv", "tqdm", "rich", "mlflow", "math_verify", "latex2sympy2_extended", "pandas")


BUILTINS = set(dir(own_import("builtins")))


class Folder(Changes):
    def __init__(self, files, place, words=()):
        self.files, self.place = files, place      # path -> value of a YAML or JSON file; a line's place as it is told
        self.frames, self.spent, self.ends = [Frame()], 0, time.monotonic() + MOST_SECONDS
        self.needs, self.notes, self.trainers, self.trained, self.star = [], {}, [], [], None
        self.called = set()
        self.words, self.words_read = list(words), False  # the script's own arguments, as far as they are given
        self.outside, self.world = {}, None  # what the script sets in other modules; why any name may be another

    def note(self, at, text):
        self.notes.setdefault((at, text), None)

    def tick(self):
        self.spent += 1
        if self.spent > MOST_STATEMENTS or (self.spent % 64 == 0 and time.monotonic() > self.ends):
            raise TooLong()

    # ---- names

    def look_up(self, name, at):
        frame = self.frames[-1]
        for names in [frame.names] + [f.names for f in reversed(frame.closure)] + [self.frames[0].names]:
            if name in names:
                return names[name]
        if name in ("True", "False", "None"):
            return {"True": True, "False": False}.get(name)
        if name == "__name__":
            return "__main__"
        if name in BUILTINS:
            return External("builtins." + name)
        if self.star:
            return External(self.star + "." + name)
        return Unknown(f"{short(name, 60)} is not set in this file", at)

    def bind(self, name, value):
        frame = self.frames[-1]
        if name in frame.outer:
            frame = next((f for f in reversed(frame.closure) if name in f.names), frame)
        (self.frames[0] if name in frame.globals else frame).names[name] = value

    def assign(self, target, value, at):
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target.elts, value, at)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, at)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.eval(target.value), target.attr, value, at)
        elif isinstance(target, ast.Subscript):
            self.set_entry(self.eval(target.value), self.eval(target.slice), value, at)

    def unpack(self, targets, value, at):
        star = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
        if isinstance(value, (list, tuple)) and (len(value) == len(targets) or star is not None):
            if star is not None:
                tail = len(targets) - star - 1
                value = [*value[:star], list(value[star:len(value) - tail]), *value[len(value) - tail:]]
            for one, part in zip(targets, value):
                self.assign(one, part, at)
            return
        for i, one in enumerate(targets):
            self.assign(one, Made(f"[{i}]", at, base=value) if isinstance(value, Made) else why_not(value, at), at)

    # ---- statements

    def run(self, body):
        for i, statement in enumerate(body):
            self.tick()
            try:
                self.statement(statement)
            except RecursionError:
                self.forget([statement], Unknown("it is nested too deeply", self.at(statement)))

    def at(self, node):
        return self.place(getattr(node, "lineno", 0))

    def statement(self, node):
        at = self.at(node)
        if isinstance(node, ast.Expr):
            self.eval(node.value)
        elif isinstance(node, ast.Assign):
            value = self.eval(node.value)
            for target in node.targets:
                self.assign(target, value, at)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.assign(node.target, self.eval(node.value), at)
        elif isinstance(node, ast.AugAssign):
            of, value = self.eval(node.target), self.eval(node.value)
            if isinstance(of, (list, dict, set)) and isinstance(node.op, (ast.Add, ast.BitOr)):
                # It is changed itself, whoever else has it.
                self.call_plain(of, "extend" if isinstance(of, list) else "update", [value], {}, at)
            else:
                of = self.operate(node.op, of, value, at)
            self.assign(node.target, of, at)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.bind(node.name, Function(Code(node), node.name, self.closure(), self.defaults_of(node.args), node.decorator_list))
        elif isinstance(node, ast.ClassDef):
            self.bind(node.name, self.make_class(node))
        elif isinstance(node, ast.If):
            self.condition(self.truth(self.eval(node.test)), node.body, node.orelse, at)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self.loop(node, at)
        elif isinstance(node, ast.While):
            self.while_loop(node, at)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                value = self.eval(item.context_expr)
                if isinstance(value, Instance) and self.has(value, "__enter__"):
                    value = self.call(self.of_instance(value, "__enter__", at), [], {}, at)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, value, at)
            self.run(node.body)
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            self.attempt(node)
        elif isinstance(node, ast.Return):
            raise Returned(None if node.value is None else self.eval(node.value))
        elif isinstance(node, (ast.Break, ast.Continue)):
            raise Jump(type(node).__name__)
        elif isinstance(node, ast.Raise):
            raise Raised(at)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imports(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            (self.frames[-1].globals if isinstance(node, ast.Global) else self.frames[-1].outer).update(node.names)
        elif isinstance(node, ast.Delete):
            self.forget([node], Unknown("it was deleted", at))
        elif type(node).__name__ == "Match":
            self.eval(node.subject)
            self.match(node.cases, at)

    def closure(self):
        return self.frames[-1].closure + [self.frames[-1]] if len(self.frames) > 1 else []

    def defaults_of(self, of):
        """Of a function's parameters, as they are where it is made."""
        places = [*getattr(of, "posonlyargs", []), *of.args]
        named = [*zip(places[len(places) - len(of.defaults):], of.defaults), *zip(of.kwonlyargs, of.kw_defaults)]
        return {place.arg: self.eval(default) for place, default in named if default is not None}

    def imports(self, node):
        for one in node.names:
            if isinstance(node, ast.Import):
                whole = one.name if one.asname else one.name.split(".")[0]
                self.bind(one.asname or whole, External(whole))
            elif one.name == "*":
                self.star = node.module or self.star
                if node.level or (node.module or "").split(".")[0] not in KNOWN:
                    names, why = self.frames[-1].names, Unknown(f"import * in line {self.at(node)} may set it", self.at(node))
                    names.update({n: why for n, v in names.items() if not isinstance(v, External)})
            else:
                self.bind(one.asname or one.name, External("." * node.level + f"{node.module + '.' if node.module else ''}{one.name}"))

    def match(self, cases, at):
        """Any case may be the one, or none where no case takes all."""
        arms, takes_all = [], False
        for case in cases:
            arms.append(lambda case=case: self.run_case(case, at))
            takes_all = type(case.pattern).__name__ == "MatchAs" and case.pattern.pattern is None and case.guard is None
        self.arms(arms if takes_all else [*arms, lambda: None], at)

    def run_case(self, case, at):
        for one in ast.walk(case.pattern):
            for name in (getattr(one, "name", None), getattr(one, "rest", None)):
                if isinstance(name, str):
                    self.bind(name, Unknown("it is part of what a match statement looks at", at))
        self.run(case.body)

    def attempt(self, node):
        """An import may fail, and so may what a handler has another value for: both are read."""
        own = [one for h in node.handlers for part in h.body for one in ast.walk(part)]
        sets = any(isinstance(one, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(one.ctx, ast.Store) for one in own)
        try:
            if sets:
                arms = [lambda: self.run([*node.body, *node.orelse])]
                self.arms(arms + [lambda h=h: self.run_handler(h) for h in node.handlers], self.at(node))
            else:
                self.run(node.body)
                self.run(node.orelse)
        except Raised:
            if not node.handlers or sets:
                raise
            self.run_handler(node.handlers[0])
        finally:
            self.run(node.finalbody)

    def run_handler(self, handler):
        if handler.name:
            self.bind(handler.name, Unknown("it is an exception", self.at(handler)))
        self.run(handler.body)

    def arms(self, arms, at):
        """One of them, which one is not known."""
        if len(arms) == 1:
            return arms[0]()
        return self.condition(Unknown("it is not known which one", at), arms[0], lambda: self.arms(arms[1:], at), at)

    def truth(self, value):
        """True, False, or why it is neither."""
        if isinstance(value, (Function, Class, Instance, Method)):
            return True
        if is_plain(value):
            unsure = isinstance(value, (dict, list, set)) and value and all(isinstance(one, Unknown) for one in (value.values() if isinstance(value, dict) else value))
            return first_unknown(value) if unsure else bool(value)
        return why_not(value, "")

    def condition(self, truth, body, orelse, at):
        """The arm that is taken; where that is not known both, each in a world of its own, and then what they agree on."""
        if not isinstance(truth, Unknown):
            return self.run(body if truth else orelse)
        ours = self.frames
        theirs = copy.deepcopy(ours)
        count, outside = len(self.trained), dict(self.outside)
        ended = self.arm(body)
        mine, self.trained[count:] = self.trained[count:], []
        self.frames, (self.outside, outside) = theirs, (outside, self.outside)
        other = self.arm(orelse)
        self.frames = ours
        merge_names(outside, self.outside, at, {})
        self.outside = outside
        self.trained[count:] = either_trained(mine, self.trained[count:], at)
        if ended and other:
            self.leave_both(ended, other, at)
        seen = {}
        for a, b in zip(ours, theirs):
            if not other:
                merge_names(a.names, b.names, at, seen, take=bool(ended))
            a.returns = a.returns + [r for r in b.returns if r not in a.returns]
        left = ended or other
        if isinstance(left, Returned):
            ours[-1].returns.append((left.value, at))
        elif isinstance(left, Jump):
            raise Jump("unknown")
        return None

    def leave_both(self, one, two, at):
        if isinstance(one, Returned) and isinstance(two, Returned):
            raise Returned(merged(one.value, two.value, at, {}))
        for left in (one, two):
            if isinstance(left, Returned):
                raise left
        raise one if isinstance(one, Raised) else two

    def arm(self, body):
        try:
            body() if callable(body) else self.run(body)
        except (Returned, Raised, Jump) as left:
            return left
        return None

    def loop(self, node, at):
        values = self.eval(node.iter)
        if isinstance(values, (list, tuple, range, dict, str, set)) and size_of(values) <= MOST_TURNS:
            try:
                for one in in_order(values):
                    self.assign(node.target, one, at)
                    self.turn(node.body)
                self.run(node.orelse)
                return
            except Jump as jump:
                if str(jump) == "Break":
                    return
        self.forget(node.body, Unknown(f"it changes in a loop in line {at}", at), node, values)

    def turn(self, body):
        try:
            self.run(body)
        except Jump as jump:
            if str(jump) != "Continue":
                raise

    def while_loop(self, node, at):
        while True:
            self.tick()
            truth = self.truth(self.eval(node.test))
            if isinstance(truth, Unknown):
                return self.forget(node.body, Unknown(f"it changes in a loop in line {at}", at), node)
            if not truth:
                return self.run(node.orelse)
            try:
                self.turn(node.body)
            except Jump as jump:
                if str(jump) == "Break":
                    return None
                return self.forget(node.body, Unknown(f"it changes in a loop in line {at}", at), node)


def either_trained(one, two, at):
    """The trainers that two arms train: (trainer, line, whether it may not be trained)."""
    if one and two and not one[-1][2] and not two[-1][2]:
        return [*one[:-1], *two[:-1], (merged(one[-1][0], two[-1][0], at, {}), two[-1][1], False)]
    return [(trainer, line, True) for trainer, line, _ in [*one, *two]]
