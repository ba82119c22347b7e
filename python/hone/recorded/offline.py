"""No network: the variables that libraries read, and Python's own connections."""
import ipaddress
import os
import socket
import sys

from hone.recorded import record

HOST = socket.gethostname()
OFF = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PIP_NO_INDEX": "1"}
# Of every run: nothing is told to a service, and no program of the script's asks the user.
QUIET = {"WANDB_MODE": "disabled", "WANDB_DISABLED": "true", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
         "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false"}


class NoNetwork(OSError):
    """A connection that the script wanted."""

    def __init__(self, address):
        record.note("network", f"{address} was asked for, and the script runs offline: what it does then may differ from a real run")
        super().__init__(f"no network: {address} was asked for, and the script runs offline; --online gives it the network")


def is_here(host):
    """Of this machine: its own names and addresses."""
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host in (None, "", "localhost", HOST):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def watch(event, arguments):
    if event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and not is_here(address[0]):
            raise NoNetwork(f"{address[0]}:{address[1]}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname") and not is_here(arguments[0]):
        raise NoNetwork(arguments[0] if not isinstance(arguments[0], bytes) else arguments[0].decode(errors="replace"))


def begin(online):
    os.environ.update(QUIET)
    if not online:
        os.environ.update(OFF)
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            del os.environ[name]  # one of this machine would be a way out
        sys.addaudithook(watch)
