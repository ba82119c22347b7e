"""The command `hone`: becomes the program, after a look at what it needs."""
import os
import sys

from hone import program
from hone.errors import HoneError

# These need no torch.
LIGHT = ("help", "--help", "-h", "version", "--version", "options")


def main(arguments=None, execute=os.execve):
    words = list(sys.argv[1:] if arguments is None else arguments)
    light = not words or words[0] in LIGHT or "--help" in words or "-h" in words
    try:
        if program.other_package():
            raise HoneError(program.other_package())
        machine = program.this_machine()
        if not light:
            program.require(machine)
            if program.is_packed() and program.remark(machine):
                print(f"note: {program.remark(machine)}", file=sys.stderr, flush=True)
        where = program.path()
        environment = program.environment(machine)
    except HoneError as error:
        print(f"hone: {error}", file=sys.stderr)
        return 2
    try:
        execute(where, [where, *words], environment)
    except OSError as error:
        print(f"hone: {where} does not start: {error.strerror}", file=sys.stderr)
        return 2
