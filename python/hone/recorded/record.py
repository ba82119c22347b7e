"""What is known of the script that this process runs."""
import os
import re
import sys

FOLDER = ""      # where options and rows are written
SCRIPT = ""      # its path, as the user wrote it
NOTES = []       # [place, name, text]
GPU = "answered as a GPU of today does: one of 80 GB, with bfloat16"
TRAINERS = []    # those that the script has made: [class, place]


class Reached(BaseException):
    """The script has called train(). `except Exception` of a script does not catch it."""

    def __init__(self, trainer, path):
        super().__init__("train()")
        self.trainer, self.path = trainer, path


class Ended:
    """The first call of train(): a script that catches everything goes on, and cannot train twice."""
    reached = None


def file_name(cell=None):
    """The name that code of the script is compiled with."""
    return SCRIPT if cell is None else f"{SCRIPT} cell {cell}"


def is_own(name):
    return name == SCRIPT or re.fullmatch(re.escape(SCRIPT) + r" cell \d+", name) is not None


def place_of(name, line):
    """"train.py:12", or "run.ipynb, cell 3 line 4"."""
    cell = re.search(r" cell (\d+)$", name)
    short = os.path.basename(SCRIPT)
    return f"{short}, cell {cell[1]} line {line}" if cell and name != SCRIPT else f"{short}:{line}"


def place():
    """Where the script stands now: its innermost frame; "" where none of its code runs."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return place_of(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ""


def place_of_error(error):
    """The innermost frame of the script's own code in a traceback."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if is_own(trace.tb_frame.f_code.co_filename):
            found = place_of(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def tell_gpu(name):
    """Once: the script has asked for a GPU."""
    if not any(text == GPU for _, _, text in NOTES):
        note(name, GPU)


def note(name, text):
    """A line for the user; the same one is told once."""
    one = [place(), name, text]
    if one not in NOTES:
        NOTES.append(one)
