"""The cases of tests/parity/check; see there."""
import argparse
import sys
import tempfile
from pathlib import Path

from check_harness import Check, begin

import check_adapters
import check_full
import check_generation
import check_gguf_adapter
import check_gguf_tokenizers
import check_hub
import check_hub_push
import check_images
import check_loggers
import check_models
import check_run_files
import check_vocabulary


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fast", action="store_true", help="without SmolLM2")
    parser.add_argument("--only", default="", metavar="WORD", help="cases whose name contains the word")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave what was compared there")
    arguments = parser.parse_args()
    keep = arguments.keep.resolve() if arguments.keep else None
    begin()
    with tempfile.TemporaryDirectory(prefix="hone-check-") as temporary:
        check = Check(keep or Path(temporary), arguments.only)
        check_adapters.cases(check)
        check_full.cases(check)
        check_models.cases(check, arguments.fast)
        check_generation.cases(check, arguments.fast)
        check_gguf_adapter.cases(check)
        check_gguf_tokenizers.cases(check)
        check_hub.cases(check)
        check_images.cases(check)
        check_hub_push.cases(check)
        check_loggers.cases(check)
        check_run_files.cases(check)
        check_vocabulary.cases(check)
    if check.ran == 0:
        sys.exit(f"no case has `{arguments.only}` in its name")
    print(f"{check.ran - check.failed} of {check.ran} cases hold")
    sys.exit(1 if check.failed else 0)


main()
