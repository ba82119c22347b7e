# The expressions of a script (folding.py has its statements).


class Expressions(Folder):
    def eval(self, node):
        self.tick()
        at = self.at(node)
        method = getattr(self, "of_" + type(node).__name__, None)
        if method is None:
            return Unknown(f"{type(node).__name__} is not read", at)
        try:
            return checked(method(node, at))
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, OverflowError, MemoryError) as error:
            return Unknown(f"reading it gives {describe(error)}", at)

    def of_Constant(self, node, at):
        return node.value

    def of_Name(self, node, at):
        return self.look_up(node.id, at)

    def of_Tuple(self, node, at):
        return tuple(self.items(node.elts))

    def of_List(self, node, at):
        return self.items(node.elts)

    def of_Set(self, node, at):
        return set(self.items(node.elts))

    def items(self, nodes):
        out = []
        for one in nodes:
            value = self.eval(one.value if isinstance(one, ast.Starred) else one)
            if isinstance(one, ast.Starred):
                out += list(value) if isinstance(value, (list, tuple, dict, range)) and size_of(value) < MOST_ITEMS else \
                    [why_not(value, self.at(one))]
            else:
                out.append(value)
        return out

    def of_Dict(self, node, at):
        out = {}
        for key, value in zip(node.keys, node.values):
            value = self.eval(value)
            if key is None:
                if not isinstance(value, dict):
                    return why_not(value, at)
                out.update(value)
                continue
            key = self.eval(key)
            if not is_plain(key):
                return why_not(key, at)
            out[key] = value
        return out

    def of_JoinedStr(self, node, at):
        out = ""
        for part in node.values:
            value = self.eval(part.value if isinstance(part, ast.FormattedValue) else part)
            if first_unknown(value) is not None or not is_light(value):
                return why_not(first_unknown(value), at)
            spec = ""
            if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
                spec = self.eval(part.format_spec)
                if not isinstance(spec, str) or not no_wide_format(spec):
                    return Unknown("its format is not read", at)
            if size_of(value) + len(out) > MOST_TEXT:
                return Unknown("it is too long", at)
            quoted = isinstance(part, ast.FormattedValue) and part.conversion == 114
            out += format(repr(value) if quoted else value, spec)
        return out

    def of_BinOp(self, node, at):
        return self.operate(node.op, self.eval(node.left), self.eval(node.right), at)

    def operate(self, op, left, right, at):
        if isinstance(op, ast.Div) and isinstance(left, str) and isinstance(right, str) and \
                (isinstance(left, PathText) or isinstance(right, PathText)):
            return PathText(os.path.join(left, right))
        for one in (left, right):
            if not is_plain(one) or isinstance(op, ast.Mod) and first_unknown(one) is not None:
                return why_not(one if not is_plain(one) else first_unknown(one), at)
        if type(op) not in BINARY or not bounded(op, left, right):
            return Unknown("it is too large", at)
        return BINARY[type(op)](left, right)

    def of_UnaryOp(self, node, at):
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            return truth if isinstance(truth, Unknown) else not truth
        return UNARY[type(node.op)](value) if is_plain(value) else why_not(value, at)

    def of_BoolOp(self, node, at):
        wanted = isinstance(node.op, ast.Or)
        value = None
        for one in node.values:
            value = self.eval(one)
            truth = self.truth(value)
            if isinstance(truth, Unknown):
                return truth
            if truth == wanted:
                return value
        return value

    def of_Compare(self, node, at):
        left = self.eval(node.left)
        for op, one in zip(node.ops, node.comparators):
            right = self.eval(one)
            if isinstance(op, (ast.Is, ast.IsNot)) and right is None and self.is_thing(left):
                result = isinstance(op, ast.IsNot)
            else:
                bad = next((v for v in (left, right) if first_unknown(v) is not None), None)
                if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, dict) and first_unknown(left) is None and OTHERS not in right:
                    bad = None
                if bad is not None or not is_light([left, right]):
                    return why_not(first_unknown(bad), at)
                result = COMPARE[type(op)](left, right)
            if not result:
                return False
            left = right
        return True

    def is_thing(self, value):
        """It is certainly not None."""
        return isinstance(value, (Function, Class, Instance, Method, External)) or \
            isinstance(value, Made) and value.base is None and value.name.split(".")[-1][:1].isupper()

    def of_IfExp(self, node, at):
        truth = self.truth(self.eval(node.test))
        if not isinstance(truth, Unknown):
            return self.eval(node.body if truth else node.orelse)
        return merged(self.eval(node.body), self.eval(node.orelse), at, {})

    def of_NamedExpr(self, node, at):
        value = self.eval(node.value)
        self.assign(node.target, value, at)
        return value

    def of_Lambda(self, node, at):
        return Function(Code(node), "lambda", self.closure(), self.defaults_of(node.args))

    def of_Starred(self, node, at):
        return self.eval(node.value)

    def of_Await(self, node, at):
        return self.eval(node.value)

    def of_ListComp(self, node, at):
        out = []
        frame = Frame(self.closure())
        self.frames.append(frame)
        try:
            why = self.comprehend(node, 0, out, at)
        finally:
            self.frames.pop()
        return out if why is None else why

    of_GeneratorExp = of_ListComp

    def of_SetComp(self, node, at):
        found = self.of_ListComp(node, at)
        return set(found) if isinstance(found, list) else found

    def of_DictComp(self, node, at):
        pairs = self.of_ListComp(node, at)
        if isinstance(pairs, Unknown):
            return pairs
        bad = first_unknown([key for key, _ in pairs])
        return dict(pairs) if bad is None else why_not(bad, at)

    def comprehend(self, node, depth, out, at):
        if depth == len(node.generators):
            out.append((self.eval(node.key), self.eval(node.value)) if isinstance(node, ast.DictComp) else self.eval(node.elt))
            return None if len(out) <= MOST_ITEMS else Unknown("it has too many entries", at)
        of = node.generators[depth]
        values = self.eval(of.iter)
        if not isinstance(values, (list, tuple, range, dict, str)) or size_of(values) > MOST_ITEMS:
            return why_not(values, at)
        for one in list(values):
            self.assign(of.target, one, at)
            truths = [self.truth(self.eval(test)) for test in of.ifs]
            why = next((t for t in truths if isinstance(t, Unknown)), None)
            if why is None and all(truths):
                why = self.comprehend(node, depth + 1, out, at)
            if why is not None:
                return why
        return None

    def of_Slice(self, node, at):
        return slice(*(None if part is None else self.eval(part) for part in (node.lower, node.upper, node.step)))

    def of_Index(self, node, at):  # Python 3.8
        return self.eval(node.value)

    def of_Subscript(self, node, at):
        of, key = self.eval(node.value), self.eval(node.slice)
        if isinstance(of, Made):
            if is_environment(of.name):
                return self.environment(key, ABSENT, at)
            if first_unknown(key) is not None or not isinstance(key, (str, int)):
                return Made("[]", at, plain=[(key, at)], base=of)
            if key not in of.parts:
                of.parts[key] = Made("[]", at, plain=[(key, at)], base=of)
            return of.parts[key]
        if isinstance(of, External):
            if of.name in self.outside or first_unknown(key) is None and is_plain(key) and (of.name, key) in self.outside:
                return self.outside[of.name] if of.name in self.outside else self.outside[(of.name, key)]
            return self.environment(key, ABSENT, at) if is_environment(of.name) else self.own_word(key, at) if of.name == "sys.argv" else Made("[]", at, plain=[(key, at)], base=of)
        if isinstance(of, dict) and first_unknown(key) is None and is_plain(key) and key not in of and OTHERS in of:
            return of[OTHERS]
        if isinstance(of, set) or is_plain(of) and first_unknown(key) is not None and not isinstance(key, slice):
            return why_not(first_unknown(key), at)
        if is_plain(of) and (is_plain(key) or isinstance(key, slice)):
            return of[key]
        return why_not(of if not is_plain(of) else key, at)

    def of_Attribute(self, node, at):
        return self.attribute(self.eval(node.value), node.attr, at)

    def attribute(self, of, name, at):
        if isinstance(of, Either) and all(isinstance(v, (Made, Instance)) for v, _ in of.values):
            return Either([(self.attribute(v, name, at), line) for v, line in of.values], of.at)
        if isinstance(of, External):
            return self.outside.get(of.name + "." + name, External(of.name + "." + name))
        if isinstance(of, Made):
            if name in of.args and (is_config(of) or name == "chat_template" or "(command line)" in of.args):
                return of.args[name][0] if of.touched is None else of.touched
            if "." + name in of.parts and not (of.touched and is_plain(of.parts["." + name])):
                return of.parts["." + name]
            if (default := of_command_line(of, name)) is not ABSENT:
                return default
            made = Made("." + name, at, base=of)
            if name not in LOOKS:
                of.parts["." + name] = made
            return made
        if isinstance(of, Instance):
            return self.of_instance(of, name, at)
        if isinstance(of, Class):
            found = next((c.names[name] for c in self.lineage(of) if isinstance(c, Class) and name in c.names), None)
            if name == "__dict__":
                return of.names
            if isinstance(found, Function) and "classmethod" in map(name_of, found.decorators):
                return Method(found, of)
            return found if found is not None or name in of.names else Unknown(f"class {of.name} has no {name} here", at)
        if isinstance(of, dict) and name not in METHODS[dict] and (name in of or OTHERS in of):
            return of.get(name, of.get(OTHERS))  # OmegaConf, and namespaces of files
        if isinstance(of, PathText) and name in ("name", "parent", "stem"):
            return PathText({"name": os.path.basename(of), "parent": os.path.dirname(of) or ".",
                             "stem": os.path.splitext(os.path.basename(of))[0]}[name])
        if is_plain(of):
            return Method(name, of)
        return why_not(of, at)

    def of_instance(self, of, name, at):
        if name in of.names:
            return of.names[name]
        if name == "__dict__":
            return of.names
        for one in self.lineage(of.of):
            if isinstance(one, Class) and name in one.names:
                found = one.names[name]
                if isinstance(found, Function):
                    kinds = set(map(name_of, found.decorators))
                    if kinds & {"property", "cached_property", "functools.cached_property"}:
                        return self.call(Method(found, of), [], {}, at)
                    return found if "staticmethod" in kinds else Method(found, of.of if "classmethod" in kinds else of)
                return of.names.get(OTHERS, found)
        if OTHERS in of.names:
            return of.names[OTHERS]
        return Unknown(f"{name} is not set in class {of.of.name}", at)

    def lineage(self, of):
        out = [of]
        for base in of.bases:
            out += self.lineage(base) if isinstance(base, Class) and len(out) < 20 else [base]
        return out

    def environment(self, key, fallback, at):
        if fallback is ABSENT or fallback is None:
            return Unknown(f"it is the environment's {short(str(key), 60)}", at)
        self.note(at, f"the environment may set {short(str(key), 60)}: its default is taken")
        return fallback

    def make_class(self, node):
        bases = [self.eval(base) for base in node.bases]
        made = Class(Code(node), node.name, bases, {}, [], any(name_of(d).endswith("dataclass") for d in node.decorator_list))
        made.is_data = made.is_data or any(isinstance(base, External) and base.name == "typing.NamedTuple" for base in bases)
        for base in bases:
            made.fields += [f for f in base.fields] if isinstance(base, Class) else []
            made.is_data = made.is_data or isinstance(base, Class) and base.is_data
        frame = Frame(self.closure())
        self.frames.append(frame)
        try:
            for one in node.body:
                self.statement(one)
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    made.fields = [f for f in made.fields if f[0] != one.target.id]
                    made.fields.append((one.target.id, frame.names.get(one.target.id, ABSENT), self.at(one)))
        finally:
            self.frames.pop()
        made.names = frame.names
        return made


def is_environment(name):
    return name == "os.environ"


def name_of(node):
    """"app.command" of a decorator."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return name_of(node.value) + "." + node.attr
    return node.id if isinstance(node, ast.Name) else ""
