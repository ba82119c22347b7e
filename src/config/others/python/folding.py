# The statements and expressions of a script, folded into values (values.py).

MOST_STATEMENTS, MOST_SECONDS, MOST_CALLS, MOST_TURNS = 200_000, 8, 40, 1000
GPU = {"is_bfloat16_supported": True, "is_bf16_supported": True, "is_torch_bf16_gpu_available": True, "cuda.is_available": True,
       "cuda.get_device_capability": (9, 0)}
KNOWN = ("trl", "transformers", "peft", "unsloth", "unsloth_zoo", "datasets", "torch", "accelerate", "bitsandbytes", "huggingface_hub",
         "os", "sys", "json", "yaml", "wandb", "logging", "random", "numpy", "pathlib", "argparse", "dataclasses", "typing", "builtins",
         "math", "re", "time", "warnings", "gc", "dotenv", "tqdm", "rich", "mlflow", "math_verify", "latex2sympy2_extended", "pandas")


BUILTINS = set(dir(own_import("builtins")))


class Frame:
    def __init__(self, closure=()):
        self.names, self.closure, self.globals, self.returns = {}, list(closure), set(), []


class Folder:
    def __init__(self, files, place):
        self.files, self.place = files, place      # path -> value of a YAML or JSON file; a line's place as it is told
        self.frames, self.spent, self.ends = [Frame()], 0, time.monotonic() + MOST_SECONDS
        self.needs, self.notes, self.trainers, self.trained, self.star = [], {}, [], [], None
        self.called = set()

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
            of, key = self.eval(target.value), self.eval(target.slice)
            if isinstance(of, (dict, list)) and first_unknown(key) is None and is_plain(key) and (isinstance(of, list) or size_of(of) < MOST_ITEMS):
                try:
                    of[key] = value
                except (TypeError, IndexError, ValueError):
                    pass
            elif isinstance(of, (dict, list)):
                self.taint(of, Unknown("an entry of it is set whose name is not known", at))

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

    def set_attribute(self, of, name, value, at):
        if isinstance(of, Made):
            of.args[name] = (value, at)
        elif isinstance(of, (Instance, Class)):
            of.names[name] = value
        elif isinstance(of, Either):
            for one, _ in of.values:
                if isinstance(one, (Made, Instance)):
                    self.set_attribute(one, name, value, at)

    def taint(self, value, why, seen=None):
        """Code that is not read may change it."""
        seen = seen if seen is not None else set()
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, Made):
            value.touched = why
        elif isinstance(value, dict):
            value.update({key: why for key in value})
        elif isinstance(value, list):
            value[:] = [why] * len(value)
        elif isinstance(value, Instance):
            value.names = {key: why for key in value.names}
        elif isinstance(value, Either):
            for one, _ in value.values:
                self.taint(one, why, seen)

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
            self.assign(node.target, self.operate(node.op, self.eval(node.target), self.eval(node.value), at), at)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.bind(node.name, Function(Code(node), node.name, self.closure(), node.decorator_list))
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
            self.frames[-1].globals.update(node.names if isinstance(node, ast.Global) else [])
        elif isinstance(node, ast.Delete):
            self.forget([node], Unknown("it was deleted", at))
        elif type(node).__name__ == "Match":
            self.forget([node], Unknown("it is set in a match statement, which is not read", at))

    def closure(self):
        return self.frames[-1].closure + [self.frames[-1]] if len(self.frames) > 1 else []

    def imports(self, node):
        for one in node.names:
            if isinstance(node, ast.Import):
                whole = one.name if one.asname else one.name.split(".")[0]
                self.bind(one.asname or whole, External(whole))
            elif one.name == "*":
                self.star = node.module or self.star
            else:
                self.bind(one.asname or one.name, External("." * node.level + f"{node.module + '.' if node.module else ''}{one.name}"))

    def attempt(self, node):
        try:
            self.run(node.body)
            self.run(node.orelse)
        except Raised:
            if not node.handlers:
                raise
            self.run(node.handlers[0].body)
        finally:
            self.run(node.finalbody)

    def truth(self, value):
        """True, False, or why it is neither."""
        if isinstance(value, (Function, Class, Instance, Method)):
            return True
        if is_plain(value):
            return bool(value)
        return why_not(value, "")

    def condition(self, truth, body, orelse, at):
        """The arm that is taken; where that is not known both, each in a world of its own, and then what they agree on."""
        if not isinstance(truth, Unknown):
            return self.run(body if truth else orelse)
        ours = self.frames
        theirs = copy.deepcopy(ours)
        ended = self.arm(body)
        self.frames = theirs
        other = self.arm(orelse)
        self.frames = ours
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
            self.run(body)
        except (Returned, Raised, Jump) as left:
            return left
        return None

    def loop(self, node, at):
        values = self.eval(node.iter)
        if isinstance(values, (list, tuple, range, dict, str, set)) and size_of(values) <= MOST_TURNS:
            try:
                for one in list(values):
                    self.assign(node.target, one, at)
                    self.turn(node.body)
                self.run(node.orelse)
                return
            except Jump as jump:
                if str(jump) == "Break":
                    return
        self.forget(node.body, Unknown(f"it changes in a loop in line {at}", at), node)

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

    def forget(self, nodes, why, loop=None):
        """Whatever these statements change is not known any more. Trainers made in a loop are found by one turn of it."""
        if loop is not None:
            if isinstance(loop, (ast.For, ast.AsyncFor)):
                self.assign(loop.target, why, why.at)
            for node in nodes:
                for one in ast.walk(node):
                    if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                        self.bind(one.id, why)
            self.arm(nodes)
        for node in nodes:
            for one in ast.walk(node):
                if isinstance(one, ast.Name) and isinstance(one.ctx, (ast.Store, ast.Del)):
                    value = self.look_up(one.id, why.at)
                    self.bind(one.id, value if isinstance(value, (Made, Function, Class)) else why)
                elif isinstance(one, (ast.Attribute, ast.Subscript)) and isinstance(one.ctx, (ast.Store, ast.Del)) or \
                        isinstance(one, ast.Attribute) and one.attr in ("append", "extend", "update", "pop", "insert", "setdefault"):
                    of = one.value
                    value = self.look_up(of.id, why.at) if isinstance(of, ast.Name) else None
                    if isinstance(value, Made):
                        value.args.update({one.attr: (why, why.at)} if isinstance(one, ast.Attribute) else {})
                    else:
                        self.taint(value, why)


def merge_names(a, b, at, seen, take=False):
    for name in [*a, *(n for n in b if n not in a)]:
        mine, theirs = a.get(name, ABSENT), b.get(name, ABSENT)
        value = theirs if take else merged(mine, theirs, at, seen)
        if take and same_kind(mine, theirs):
            value = merged(mine, theirs, at, seen, take=True)
        if value is ABSENT:
            a.pop(name, None)
        else:
            a[name] = value


def same_kind(a, b):
    return type(a) is type(b) and isinstance(a, (Made, dict, list, Instance, Class))


def merged(a, b, at, seen, take=False):
    """One value of two arms: the first object, changed, where both are the same kind; else Either. `take`: the second's."""
    if a is b:
        return a
    if (id(a), id(b)) in seen:
        return seen[(id(a), id(b))][0]
    if isinstance(a, Made) and isinstance(b, Made) and (a.name, a.at, len(a.plain)) == (b.name, b.at, len(b.plain)):
        seen[(id(a), id(b))] = a, b
        pairs = {n: v for n, (v, _) in a.args.items()}, {n: v for n, (v, _) in b.args.items()}
        lines = {**{n: l for n, (_, l) in b.args.items()}, **({} if take else {n: l for n, (_, l) in a.args.items()})}
        merge_names(*pairs, at, seen, take)
        a.args = {n: (v, lines[n]) for n, v in pairs[0].items()}
        a.plain = [(merged(v, w, at, seen, take), l) for (v, l), (w, _) in zip(a.plain, b.plain)]
        a.base = merged(a.base, b.base, at, seen, take)
        a.touched = b.touched if take else a.touched or b.touched
        return a
    if isinstance(a, dict) and isinstance(b, dict):
        seen[(id(a), id(b))] = a, b
        merge_names(a, b, at, seen, take)
        return a
    if isinstance(a, (Instance, Class)) and type(a) is type(b) and (isinstance(a, Class) or a.of.name == b.of.name):
        seen[(id(a), id(b))] = a, b
        merge_names(a.names, b.names, at, seen, take)
        return a
    if isinstance(a, list) and isinstance(b, list) and (take or len(a) == len(b)):
        seen[(id(a), id(b))] = a, b
        a[:] = list(b) if take else [merged(v, w, at, seen) for v, w in zip(a, b)]
        return a
    if take:
        return b
    if is_plain(a) and is_plain(b) and type(a) is type(b) and first_unknown([a, b]) is None and a == b:
        return a
    if isinstance(a, (Function, External)) and type(a) is type(b) and a.name == b.name:
        return a
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return a
    values = []
    for one in (a, b):
        for value, line in one.values if isinstance(one, Either) else [(one, at)]:
            if not any(is_same(value, known) for known, _ in values):
                values.append((value, line))
    return Either(values[:8], at)


def is_same(a, b):
    return a is b or type(a) is type(b) and (isinstance(a, (bool, int, float, str)) and a == b or isinstance(a, Made) and (a.name, a.at) == (b.name, b.at))
