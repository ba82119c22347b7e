# Parsers of a command line: argparse, and transformers' HfArgumentParser. Their defaults, or what the script gives them.

# What TRL's own classes say where the command line does not.
OF_COMMAND_LINE = {
    "ModelConfig": {"model_revision": "main", "dtype": "float32", "attn_implementation": None, "trust_remote_code": False, "use_peft": False, "load_in_4bit": False, "load_in_8bit": False},
    "ScriptArguments": {"dataset_config": None, "dataset_train_split": "train", "dataset_test_split": "test", "dataset_streaming": False},
}
OF_EACH_CONFIG = {"eval_strategy": "no"}
OF_MODEL_CONFIG = ("get_peft_config", "get_quantization_config", "get_kbit_device_map")  # None without an adapter and 4 or 8 bits


def of_command_line(made, name):
    """The default of an attribute of TRL's classes that a parser made; ABSENT: it is not known."""
    if not isinstance(made, Made) or "(command line)" not in made.args or made.touched or not made.name.startswith(("trl.", "transformers.")):
        return ABSENT
    last = made.name.split(".")[-1]
    return OF_COMMAND_LINE.get(last, OF_EACH_CONFIG if last.endswith(("Config", "TrainingArguments")) else {}).get(name, ABSENT)


def is_without_adapter(made):
    """A ModelConfig whose every value is the command line's."""
    read = isinstance(made, Made) and all(isinstance(v, Made) and v.base is made for v in made.parts.values())
    return read and set(made.args) == {"(command line)"} and of_command_line(made, "use_peft") is False


# Fields of TRL's classes that share a command line with a config; what is none of these is the config's.
FIELDS = {
    "ScriptArguments": {"dataset_name", "dataset_config", "dataset_train_split", "dataset_test_split", "dataset_streaming",
                        "gradient_checkpointing_use_reentrant", "ignore_bias_buffers"},
    "ModelConfig": {"model_name_or_path", "model_revision", "dtype", "torch_dtype", "trust_remote_code", "attn_implementation",
                    "use_peft", "lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_target_parameters",
                    "lora_modules_to_save", "lora_task_type", "use_rslora", "use_dora", "load_in_8bit", "load_in_4bit",
                    "bnb_4bit_quant_type", "use_bnb_nested_quant", "bnb_4bit_quant_storage"},
}


class Parsers(Expressions):
    def own_word(self, number, at):
        """sys.argv[number], where the script's arguments are given."""
        if isinstance(number, int) and not isinstance(number, bool) and 0 < number <= len(self.words):
            self.words_read = True
            return self.words[number - 1]
        return Unknown("the command line gives it", at)

    def own_words(self, at):
        """The script's arguments for a parser that reads sys.argv; None: none are given, and its defaults are taken."""
        if self.words:
            self.words_read = True
            return self.words
        self.note(at, "the command line may set other values: the defaults are taken")
        return None

    def call_parser(self, parser, name, given, named, at):
        if name == ".add_argument":
            parser.args.setdefault("options", ([], at))[0].append((given, named, at))
            return None
        if name in (".add_argument_group", ".add_mutually_exclusive_group"):
            return parser
        if name == ".set_defaults":
            parser.args.setdefault("defaults", ({}, at))[0].update({n: v for n, (v, _) in named.items()})
            return None
        if name.startswith(".parse_") and "sys.argv" in self.outside and not given and not named:
            given = [(Unknown(f"the script sets sys.argv, which the parser in line {at} reads", at), at)]
        if name in (".parse_args", ".parse_known_args"):
            made = self.parsed(parser, at)
            words = [v for v in (given[0][0] if given else named.get("args", (None, at))[0],) if v is not None]
            if words or [n for n in named if n != "args"] or len(given) > 1:
                if len(named) + len(given) > 1 or not self.take_words(parser, made, words[0], at):
                    self.taint(made, Unknown(f"the words that the script gives to the parser in line {at} are not read", at))
            elif (own := self.own_words(at)) and not self.take_words(parser, made, own, at):
                self.taint(made, Unknown(f"the arguments behind -- are not those of the parser in line {at}", at))
            return (made, []) if name == ".parse_known_args" else made
        if name.startswith(".parse_"):
            return self.parse_kinds(parser, name, given, named, at)
        return Made(name, at, dict(named), list(given), base=parser)

    def take_words(self, parser, made, words, at):
        """["--lr", "3e-5"] as options of one value each. False: it is not such a list."""
        if not isinstance(words, (list, tuple)) or first_unknown(words) is not None or not all(isinstance(w, str) for w in words):
            return False
        options, rest = {}, [part for w in words for part in (w.split("=", 1) if w.startswith("--") else [w])]
        places = []  # arguments without dashes, in order
        for given, named, line in parser.args.get("options", ([], at))[0]:
            options.update({w: (given, named, line) for w, _ in given if isinstance(w, str) and w.startswith("-")})
            places += [(given, named, line)] if given and isinstance(given[0][0], str) and not given[0][0].startswith("-") else []
        while rest:
            if rest[0] in options:
                given, named, line = options[rest.pop(0)]
            elif places and not rest[0].startswith("-"):
                given, named, line = places.pop(0)
            else:
                return False
            names = {n: v for n, (v, _) in named.items()}
            long = next((w for w, _ in given if isinstance(w, str) and w.startswith("--")), given[0][0])
            key, action = names.get("dest", long.lstrip("-").replace("-", "_")), names.get("action", "store")
            if action in ("store_true", "store_false"):
                made.names[key] = action == "store_true"
            elif action == "store" and "nargs" not in names and rest:
                made.names[key] = self.converted(rest.pop(0), names.get("type"), line)
            else:
                return False
        return True

    def parse_kinds(self, parser, name, given, named, at):
        """HfArgumentParser and TrlParser: an instance of each class, by the command line or by what the script gives."""
        kinds = parser.plain[0][0] if parser.plain else parser.args.get("dataclass_types", (None, at))[0]
        kinds = list(kinds) if isinstance(kinds, (list, tuple)) else [kinds]
        values, own = {}, False
        if name in (".parse_dict", ".parse_yaml_file", ".parse_json_file"):
            source = given[0][0] if given else next((v for n, (v, _) in named.items() if n in ("args", "yaml_file", "json_file")), None)
            values = self.file(source, at) if isinstance(source, str) and name != ".parse_dict" else source
        elif [n for n in named if n not in ("return_remaining_strings", "look_for_args_file")] or given:
            words = given[0][0] if given else named.get("args", (None, at))[0]
            others = len(given) > 1 or [n for n in named if n not in ("args", "return_remaining_strings", "look_for_args_file")]
            values = None if others else self.word_values(words)
            if values is None:
                values = Unknown(f"the words that the script gives to the parser in line {at} are not read", at)
        else:
            values, own = self.own_values(name, at)
        made = tuple(self.call(kind, [], self.of_kind(kind, kinds, values, at), at) if isinstance(kind, (Class, External)) else why_not(kind, at) for kind in kinds)
        for one in made if values == {} or own else []:
            if isinstance(one, Made):
                one.args["(command line)"] = (True, at)
        return (*made, []) if named.get("return_remaining_strings", (False, at))[0] is True else made

    def own_values(self, name, at):
        """The values of the script's arguments, and whether they are known; TrlParser takes a file of more by --config."""
        words = self.own_words(at)
        if words is None:
            return {}, False
        values = self.word_values(words)
        if values is not None and name == ".parse_args_and_config" and isinstance(values.get("config"), str):
            file = self.file(values.pop("config"), at)
            values = {**file, **values} if isinstance(file, dict) else None
        if values is None:
            return Unknown(f"the arguments behind -- are not read as values of the parser in line {at}", at), False
        return values, True

    def word_values(self, words):
        """{"learning_rate": 3e-5} of ["--learning_rate", "3e-5"]: a value each, or a switch. None: the words are otherwise."""
        if not isinstance(words, (list, tuple)) or first_unknown(words) is not None or not all(isinstance(w, str) for w in words):
            return None
        values, rest = {}, [part for w in words for part in (w.split("=", 1) if w.startswith("--") else [w])]
        while rest:
            name = rest.pop(0)
            if not name.startswith("--") or len(name) == 2:
                return None
            value = "true" if not rest or rest[0].startswith("--") else rest.pop(0)
            if rest and not rest[0].startswith("--"):
                return None
            values[name[2:].replace("-", "_")] = self.word_value(value)
        return values

    def word_value(self, word):
        if word.lower() in ("true", "false"):
            return word.lower() == "true"
        for kind in (int, float):
            try:
                return kind(word)
            except ValueError:
                pass
        return word

    def of_kind(self, kind, kinds, values, at):
        """Those of the values that are fields of the class; with two classes of other modules it is not known whose they are."""
        if not isinstance(values, dict):
            return {OTHERS: (why_not(values, at), at)}
        own = {name for one in kinds if isinstance(one, Class) for name, _, _ in one.fields}
        if isinstance(kind, Class) and not any(isinstance(c, External) for c in self.lineage(kind)):
            return {n: (v, at) for n, v in values.items() if n == OTHERS or n in {name for name, _, _ in kind.fields}}
        mine = FIELDS.get(name_of_call(kind)) if isinstance(kind, External) and kind.name.startswith("trl.") else None
        if mine is not None:
            return {n: (v, at) for n, v in values.items() if n in mine}
        own |= {n for one in kinds if isinstance(one, External) and one.name.startswith("trl.") for n in FIELDS.get(name_of_call(one), ())}
        if values and sum(isinstance(one, External) and name_of_call(one) not in FIELDS for one in kinds) > 1:
            return {OTHERS: (Unknown(f"{name_of_call(kind)} and another class share what the parser in line {at} is given", at), at)}
        return {n: (v, at) for n, v in values.items() if n not in own or isinstance(kind, Class)}

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


def name_of_call(kind):
    return kind.name.split(".")[-1] if isinstance(kind, (External, Class)) else "it"
