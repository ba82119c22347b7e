"""The parameters of a model that was not loaded, as the headers of its files have them: names, shapes, and who is trained."""
import json
import math

from hone.trl import models

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I8": 1, "U8": 1, "F8_E4M3": 1}


class Data:
    """Of a parameter, for scripts that change its type before an adapter is made: it stays as it is."""

    def __init__(self, parameter):
        self.dtype, self.shape = parameter.dtype, parameter.shape

    def to(self, *_, **__):
        return self

    float = half = bfloat16 = cuda = cpu = to


class Parameter:
    """No numbers: its name, its shape, and whether the script has it trained."""

    def __init__(self, name, shape, dtype):
        self.name, self.shape, self.dtype, self.requires_grad = name, tuple(shape), dtype, True
        self.device, self.grad = "cuda:0", None

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def data(self):
        return Data(self)

    @data.setter
    def data(self, value):
        if not isinstance(value, Data):
            raise TypeError(f"{self.name}: --run loads no weights, so that none can be set")

    def numel(self):
        return math.prod(self.shape)

    nelement = numel

    def dim(self):
        return len(self.shape)

    def size(self, at=None):
        return self.shape if at is None else self.shape[at]

    def element_size(self):
        return SIZES.get(self.dtype, 2)

    def requires_grad_(self, trained=True):
        self.requires_grad = bool(trained)
        return self


def header_of(path):
    with open(path, "rb") as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))


def parameters_of(name):
    """Those of the files of a folder, or of a name in the hub's cache. None where there are no files."""
    folder = models.folder_named(name)
    files = models.files_of(folder) if folder is not None else []
    out = [Parameter(key, row["shape"], row["dtype"]) for path in files for key, row in header_of(path).items() if key != "__metadata__"]
    return out or None


class Part:
    """Modules of a model by the beginnings of their parameters' names: scripts freeze them, and count their parameters."""

    def __init__(self, parameters, prefixes):
        self.__dict__.update(all=parameters, prefixes=prefixes)

    def named_parameters(self, *_, **__):
        return [(one.name, one) for one in self.all if one.name.startswith(tuple(f"{prefix}." for prefix in self.prefixes))]

    def parameters(self, *_):
        return [one for _, one in self.named_parameters()]

    def requires_grad_(self, trained=True):
        for one in self.parameters():
            one.requires_grad_(trained)
        return self

    def children(self):
        """The names of what is in it, in the order of the files; layers by their number."""
        names = {name[len(prefix) + 1:].partition(".")[0] for prefix in self.prefixes for name, _ in self.named_parameters() if name.startswith(f"{prefix}.")}
        return sorted(names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))

    def __len__(self):
        return len(self.children())

    def __iter__(self):
        return (part_of(self.all, [f"{prefix}.{name}" for prefix in self.prefixes]) for name in self.children())

    def __getitem__(self, at):
        names = self.children()[at]
        names = names if isinstance(names, list) else [names]
        return part_of(self.all, [f"{prefix}.{name}" for prefix in self.prefixes for name in names])

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return part_of(self.all, [f"{prefix}.{name}" for prefix in self.prefixes])

    def __setattr__(self, name, value):
        raise TypeError(f"{self.prefixes[0]}.{name}: --run loads no weights, so that no module can be set")


def part_of(parameters, names):
    """The parameter of one name, or what is below these names."""
    if len(names) == 1:
        exact = next((one for one in parameters if one.name == names[0]), None)
        if exact is not None:
            return exact
    made = Part(parameters, names)
    if not made.named_parameters():
        raise AttributeError(f"{names[0]}: no parameter of the model's files is below it")
    return made
