"""What loggers.py and hub_push.py share: hone with packages of our own on PYTHONPATH, in the place of those of PyPI."""
import json
import os
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = SOURCE / "tests/fixtures/parity"


class StandIn:
    """Runs hone in a folder; `package` is what `import NAME` gives there. Prints `ok NAME` or `not ok NAME` a check."""

    def __init__(self, hone, folder, name, package, about):
        self.hone, self.folder, self.about, self.failed = hone, folder, about, 0
        self.calls_file = folder / "calls.jsonl"
        for place, text in ((f"packages/{name}", package), (f"none/{name}", "raise ImportError('not here')")):
            (folder / place).mkdir(parents=True)
            (folder / place / "__init__.py").write_text(text)
        self.environment = os.environ | {"PYTHONPATH": str(folder / "packages"), "STAND_IN_LOG": str(self.calls_file),
                                         "STAND_IN_FOLDER": str(folder / "server")}
        for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "STAND_IN_DOES", "WANDB_PROJECT"):
            self.environment.pop(variable, None)

    def start(self, *words, **variables):
        return subprocess.Popen([str(self.hone), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                cwd=self.folder, env=self.environment | variables)

    def run(self, *words, **variables):
        with self.start(*words, **variables) as process:
            said, _ = process.communicate(timeout=300)
            return process.returncode, said

    def words(self, out, steps, *more):
        return ["sft", "--model_name_or_path", FIXTURES / "tiny_llama", "--dataset_name", FIXTURES / "sft/text.jsonl", "--use_peft", "true",
                "--lora_r", 4, "--max_steps", steps, "--max_length", 32, "--bf16", "false", "--threads", 1, "--skip_doctor", "true",
                "--per_device_train_batch_size", 2, "--logging_steps", 1, "--output_dir", out, *more]

    def train(self, out, steps, *more, **variables):
        return self.run(*self.words(out, steps, *more), **variables)

    def calls(self, kind):
        """What the package was asked to do since the last forget()."""
        if not self.calls_file.exists():
            return []
        lines = [json.loads(line) for line in self.calls_file.read_text().splitlines()]
        return [line[1:] for line in lines if line[0] == kind]

    def forget(self):
        self.calls_file.unlink(missing_ok=True)

    def check(self, name, condition, output=""):
        print(f"{'ok' if condition else 'not ok'} {self.about}: {name}", flush=True)
        if not condition:
            self.failed += 1
            print(output)
