"""Which process of how many this is, and its device: by the launcher's variables, as the program reads them."""
import contextlib
import os
import sys

# Of torchrun and `hone launch`, Open MPI, MPICH.
_RANKS = (("RANK", "WORLD_SIZE", "LOCAL_RANK"),
          ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
          ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"))


def ranks():
    """(rank, processes, rank on this host)."""
    for names in _RANKS:
        values = [os.environ.get(name, "") for name in names]
        if values[0].isdigit() and values[1].isdigit():
            return int(values[0]), int(values[1]), int(values[2]) if values[2].isdigit() else int(values[0])
    return 0, 1, 0


def rank():
    return ranks()[0]


def world_size():
    return ranks()[1]


def local_rank():
    return ranks()[2]


def device(word="cpu"):
    """Where the program computes, by its option `device`: torch's object where this process has torch. `auto` is decided by the
    program when it runs; until then it is the first GPU that torch sees here. A word that is no device is left to the program."""
    try:
        import torch
    except ImportError:
        return "cpu" if word == "auto" else word
    if word == "auto":
        word = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.device("cuda:0" if word == "cuda" else word)
    except (RuntimeError, TypeError):
        return word


def barrier():
    """Waits where this process and its fellows have a group; the program's ranks wait for one another themselves."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if world_size() > 1 and distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.barrier()


@contextlib.contextmanager
def first(is_first):
    """The others wait until the first has left it."""
    if not is_first:
        barrier()
    yield
    if is_first:
        barrier()
