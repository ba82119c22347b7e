# What code that is not read may change: such a value is unknown from there on, and so is everything that holds it.

# Methods of another module's things that only look, move, or make a new one.
LOOKS = set("""to_dict to_json_string to_sanitized_dict num_parameters print_trainable_parameters get_nb_trainable_parameters parameters
    named_parameters modules named_modules named_children children state_dict get_memory_footprint save_pretrained push_to_hub
    save_pretrained_merged push_to_hub_merged save_pretrained_gguf push_to_hub_gguf save_model save_state save_metrics log_metrics
    log evaluate predict generate create_model_card train eval to cuda cpu gradient_checkpointing_enable gradient_checkpointing_disable
    enable_input_require_grads get_input_embeddings get_output_embeddings is_world_process_zero is_local_process_zero numel size
    wait_for_everyone add_callback remove_callback print info warning error debug apply_chat_template decode batch_decode encode
    tokenize convert_tokens_to_ids convert_ids_to_tokens get_vocab pad __call__ map filter select shuffle train_test_split
    remove_columns select_columns rename_column rename_columns cast cast_column sort skip take flatten unique to_pandas to_list iter
    items keys values get copy read read_text write close exists mkdir format split strip group join report_to detach item mean sum
    get_train_dataloader is_available process_index __len__ __enter__ __exit__ shard""".split())
# What they give is not the thing itself: changing it changes nothing else.
MAKERS = {"." + name for name in """map filter select shuffle train_test_split remove_columns select_columns rename_column rename_columns
    cast cast_column sort skip take flatten copy to_dict to_pandas to_list unique shard tokenize encode decode generate""".split()}
# Attributes and entries of models and tokenizers that change nothing in what is learned.
PLAIN_NAMES = {"use_cache", "pretraining_tp", "pad_token", "pad_token_id", "eos_token_id", "bos_token_id", "padding_side", "truncation_side",
               "is_parallelizable", "model_parallel", "generation_config", "max_new_tokens", "do_sample", "temperature", "top_p", "top_k",
               "name_or_path", "model_max_length", "_attn_implementation"}
# Functions of known modules that leave what they are given as it is, or give it back as one that is read.
HARMLESS = {"get_peft_model", "prepare_model_for_kbit_training", "prepare_model_for_int8_training", "get_chat_template", "set_seed",
            "train_on_responses_only", "standardize_sharegpt", "standardize_data_formats", "to_sharegpt", "apply_chat_template",
            "get_quantization_config", "get_peft_config", "get_kbit_device_map", "clone_chat_template", "for_inference", "for_training",
            "from_pretrained", "save", "load", "device", "no_grad", "manual_seed", "extract_prompt", "maybe_apply_chat_template", "from_dict",
            "get_last_checkpoint", "pipeline", "concatenate_datasets", "empty_cache", "choice", "random", "randint", "sample", "seed",
            "get_scheduler", "get_constant_schedule", "get_constant_schedule_with_warmup", "get_linear_schedule_with_warmup",
            "get_cosine_schedule_with_warmup"}
CHANGING_ROOTS = ("trl", "transformers", "peft", "unsloth", "unsloth_zoo", "torch", "accelerate", "bitsandbytes", "random", "numpy")
OTHERS = "**"  # in a dict, an object or the arguments of a call: entries whose names are not known


class Frame:
    def __init__(self, closure=()):
        self.names, self.closure, self.globals, self.outer, self.returns = {}, list(closure), set(), set(), []


def is_config(made):
    return made.base is None and (made.own is not None or made.name.endswith(("Config", "Arguments", "Trainer", "ArgumentParser")))


class Changes:
    def set_attribute(self, of, name, value, at):
        if isinstance(of, Made):
            if is_config(of) or name == "chat_template":
                of.args[name] = (value, at)
            else:
                of.parts["." + name] = value
            if not is_config(of) and name not in PLAIN_NAMES:
                self.touch(of, Unknown(f"its {short(name, 60)} is set in line {at}", at))
        elif isinstance(of, Instance) and self.has_setter(of, name):
            self.taint(of, Unknown(f"{short(name, 60)} is a property with a setter, in line {at}", at))
        elif isinstance(of, (Instance, Class)):
            of.names[name] = value
        elif isinstance(of, External):
            self.outside[of.name + "." + name] = value
        elif isinstance(of, Either):
            for one, line in of.values:
                before = self.stored(one, name)
                self.set_attribute(one, name, value if before is None else Either([(before, line), (value, at)], at), at)

    def stored(self, of, name):
        """What it holds under the name, of one that is one of several; an Absent where nothing."""
        if isinstance(of, Made):
            return of.args[name][0] if name in of.args else ABSENT
        return of.names.get(name, ABSENT) if isinstance(of, (Instance, Class)) else None

    def has_setter(self, of, name):
        found = next((c.names[name] for c in self.lineage(of.of) if isinstance(c, Class) and name in c.names), None)
        return isinstance(found, Function) and any(name_of(d).endswith(".setter") for d in found.decorators)

    def set_entry(self, of, key, value, at):
        why = Unknown(f"an entry of it is set in line {at} whose name is not known", at)
        known = first_unknown(key) is None and is_plain(key)
        if isinstance(of, Made):
            if known and isinstance(key, (str, int)):
                of.parts[key] = value
            else:
                self.touch(of, why)
        elif isinstance(of, External):
            self.outside[(of.name, key) if known else of.name] = value if known else why
        elif isinstance(of, (dict, list)) and known and (isinstance(of, list) or size_of(of) < MOST_ITEMS):
            try:
                of[key] = value
            except (TypeError, IndexError, ValueError):
                self.taint(of, why)
        else:
            self.taint(of, why)

    def touch(self, made, why):
        """It may be another one now, and so may the things that it is a part of."""
        for _ in range(40):
            made.touched = made.touched or why
            if not isinstance(made.base, Made) or made.name in MAKERS:
                return
            made = made.base

    def taint(self, value, why, seen=None):
        """Code that is not read has it."""
        seen = {} if seen is None else seen
        if id(value) in seen or len(seen) > MOST_ITEMS or is_plain(value) and not isinstance(value, (list, tuple, dict, set)):
            return
        seen[id(value)] = value
        if isinstance(value, Made):
            self.touch(value, why)
            inner = [v for v, _ in [*value.args.values(), *value.plain]]
        elif isinstance(value, dict):
            inner = list(value.values())
            if any(value is frame.names for frame in self.frames):
                return self.taint_world(why)
            value.update({key: why for key in value})
            value[OTHERS] = why
        elif isinstance(value, list):
            inner = list(value)
            value[:] = [why] * max(1, len(value))
        elif isinstance(value, set):
            inner = []
            value.clear()
            value.add(why)
        elif isinstance(value, (Instance, Class)):
            inner = list(value.names.values())
            kept = {n: v for n, v in value.names.items() if isinstance(value, Class) and isinstance(v, Function)}
            value.names = {**{name: why for name in value.names}, **kept, OTHERS: why}
        elif isinstance(value, Function):
            return self.skip(value, why, seen)
        elif isinstance(value, Method):
            inner = [value.of, value.function]
        else:
            inner = [v for v, _ in value.values] if isinstance(value, Either) else value if isinstance(value, tuple) else []
        for one in inner:
            self.taint(one, why, seen)
        return None

    def skip(self, function, why, seen):
        """A function that something else calls: what it changes outside of itself."""
        own = {a.arg for a in ast.walk(function.code.node) if isinstance(a, ast.arg)}
        outer = set()
        for one in ast.walk(function.code.node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                own.add(one.id)
            elif isinstance(one, (ast.Global, ast.Nonlocal)):
                outer.update(one.names)
        for name in outer:
            for names in [*(f.names for f in function.closure), self.frames[0].names]:
                if name in names:
                    names[name] = why
        used = {one.id for one in ast.walk(function.code.node) if isinstance(one, ast.Name)} - own
        for name in used:
            for names in [*(f.names for f in reversed(function.closure)), self.frames[0].names]:
                if isinstance(names.get(name), Function):
                    self.taint(names[name], why, seen)
        for name in changed_names([function.code.node]) - own:
            for names in [*(f.names for f in reversed(function.closure)), self.frames[0].names]:
                if name in names:
                    self.taint(names[name], why, seen)
                    break

    def taint_world(self, why):
        """exec() and its like may set every name."""
        self.world = self.world or why
        for frame in self.frames:
            for name, value in list(frame.names.items()):
                if isinstance(value, (Function, External)):
                    continue
                if isinstance(value, (Made, Instance, Class, dict, list, set)):
                    self.taint(value, why)
                if not isinstance(value, (Made, Class)):
                    frame.names[name] = why

    def forget(self, nodes, why, loop=None, values=None):
        """Whatever these statements change is not known any more. Trainers made in a loop are found by one turn of it."""
        before = {}
        for node in nodes:
            for one in ast.walk(node):
                if isinstance(one, ast.Name) and isinstance(one.ctx, (ast.Store, ast.Del)):
                    before[one.id] = self.look_up(one.id, why.at)
        self.forget_parts(nodes, why)
        for name in before:
            self.bind(name, why)
        if loop is None:
            return
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            self.assign(loop.target, Made("each", why.at, base=values) if isinstance(values, Made) else why, why.at)
        count = len(self.trained)
        self.arm(nodes)
        self.trained[count:] = [(trainer, at, True) for trainer, at, _ in self.trained[count:]]
        self.forget_parts(nodes, why)
        for name, old in before.items():
            value = self.look_up(name, why.at)
            if not isinstance(value, (Made, Function, Class)):
                self.bind(name, why)
            elif isinstance(old, (Made, Function, Class)) and old is not value:
                self.bind(name, Either([(old, why.at), (value, why.at)], why.at))

    def forget_parts(self, nodes, why):
        for name in changed_names(nodes):
            value = self.look_up(name, why.at)
            if isinstance(value, Made):
                for node in nodes:
                    for one in ast.walk(node):
                        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and name_of(one.value) == name:
                            value.args.update({one.attr: (why, why.at)} if is_config(value) else {})
            else:
                self.taint(value, why)


def changed_names(nodes):
    """Names whose attributes or entries these statements set, or on which they call what changes them."""
    out = set()
    for node in nodes:
        for one in ast.walk(node):
            stores = isinstance(one, (ast.Attribute, ast.Subscript)) and isinstance(one.ctx, (ast.Store, ast.Del))
            if stores or isinstance(one, ast.Attribute) and one.attr in CHANGING:
                of = one.value
                while isinstance(of, (ast.Attribute, ast.Subscript)):
                    of = of.value
                out.update([of.id] if isinstance(of, ast.Name) else [])
    return out


CHANGING = ("append", "extend", "update", "pop", "insert", "setdefault", "remove", "clear", "add", "discard", "sort", "reverse", "popitem")


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
        for name in [n for n in [*a.parts, *b.parts] if take or n not in a.parts or n not in b.parts or a.parts[n] is not b.parts[n]]:
            mine, theirs = a.parts.get(name, ABSENT), b.parts.get(name, ABSENT)
            a.parts[name] = theirs if mine is ABSENT else mine if theirs is ABSENT else merged(mine, theirs, at, seen, take)
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
    if isinstance(a, External) and isinstance(b, External) and a.name == b.name:
        return a
    if isinstance(a, Function) and isinstance(b, Function) and a.code.node is b.code.node:
        seen[(id(a), id(b))] = a, b
        for one, other in zip(a.closure, b.closure):
            merge_names(one.names, other.names, at, seen)
        return a
    if isinstance(a, Method) and isinstance(b, Method) and (a.function is b.function or a.function == b.function):
        seen[(id(a), id(b))] = a, b
        a.of = merged(a.of, b.of, at, seen)
        return a
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return a
    if isinstance(a, Either) and isinstance(b, Either) and len(a.values) == len(b.values):
        parts = [(merged(v, w, at, seen), line) for (v, line), (w, _) in zip(a.values, b.values)]
        return Either([two for v, line in parts for two in (v.values if isinstance(v, Either) else [(v, line)])][:8], a.at)
    values = []
    for one in (a, b):
        for value, line in one.values if isinstance(one, Either) else [(one, at)]:
            twin = next((known for known, _ in values if is_same(value, known)), ABSENT)
            if twin is ABSENT:
                values.append((value, line))
            elif isinstance(twin, Made):
                merged(twin, value, at, seen)
    return Either(values[:8], at)


def is_same(a, b):
    return a is b or type(a) is type(b) and (isinstance(a, (bool, int, float, str)) and a == b or isinstance(a, Made) and (a.name, a.at, len(a.plain)) == (b.name, b.at, len(b.plain)))
