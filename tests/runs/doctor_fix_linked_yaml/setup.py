"""run.yaml of the case doctor_fix, as a link to a file that only its owner may read."""
import os
import pathlib

import staging

os.mkdir("kept")
text = (staging.SOURCE / "tests/runs/doctor_fix/run.yaml").read_text(encoding="utf-8")
pathlib.Path("kept/run.yaml").write_text(text, encoding="utf-8")
os.chmod("kept/run.yaml", 0o600)
os.symlink("kept/run.yaml", "run.yaml")
