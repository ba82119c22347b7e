"""Tokens and trained positions of small runs by the trainers' own code -> tests/fixtures/config/trainer_masks/*.json.

usage: record_trainer_masks.py PACKAGES [--check] [TRAINER...]   PACKAGES: the folder that tests/parity/setup fills
A trainer whose package is not there is left out, by name.
"""
import importlib
import os
import subprocess
import sys
from pathlib import Path

TRAINERS = {"llamafactory": "factory", "swift": "swift", "axolotl": "axolotl", "unsloth": "unsloth"}


def record(trainer, check):
    sys.path.insert(0, os.path.abspath(sys.argv[1]))
    sys.path.insert(0, str(Path(__file__).parent))
    os.environ.update(DISABLE_VERSION_CHECK="1", LLAMAFACTORY_VERBOSITY="ERROR", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", CUDA_VISIBLE_DEVICES="",
                      AXOLOTL_DO_NOT_TRACK="1", LOG_LEVEL="ERROR")
    importlib.import_module(f"masks.record_{TRAINERS[trainer]}").main(check)


def main():
    asked = [name for name in sys.argv[2:] if not name.startswith("-")]
    if len(asked) == 1:
        return record(asked[0], "--check" in sys.argv)
    for trainer in asked or TRAINERS:
        if not (Path(sys.argv[1]) / trainer).is_dir():
            print(f"{trainer}: not installed, its masks are not recorded")
            continue
        # Each in a process of its own: they change the same libraries.
        subprocess.run([sys.executable, __file__, sys.argv[1], trainer, *(["--check"] if "--check" in sys.argv else [])], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
