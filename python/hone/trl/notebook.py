"""A progress bar in Jupyter: one line of HTML that is written again. Elsewhere nothing."""
import sys
import time


def is_notebook():
    shell = sys.modules.get("IPython")
    shell = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def duration(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Progress:
    """begin(), then step() after each step. disable_tqdm turns it off."""

    def __init__(self, disabled=False, clock=time.monotonic):
        self.handle, self.clock = None, clock
        self.shown = not disabled and is_notebook()

    def begin(self, first, total):
        if self.shown:
            from IPython.display import HTML, display
            self.html, self.first, self.total, self.start, self.last = HTML, first, total, self.clock(), 0
            self.handle = display(HTML(self.text(first, "")), display_id=True)

    def text(self, step, words):
        return f'<progress value="{step}" max="{self.total}" style="width:300px"></progress> {step}/{self.total} {words}'

    def step(self, step, words=""):
        now = self.clock()
        if self.handle is None or (now - self.last < 0.5 and step < self.total):
            return
        self.last = now
        spent = now - self.start
        left = spent / max(1, step - self.first) * (self.total - step)
        self.handle.update(self.html(self.text(step, f"[{duration(spent)} &lt; {duration(left)}] {words}")))
