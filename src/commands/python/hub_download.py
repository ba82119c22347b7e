"""Downloads one repository of Hugging Face's hub into its cache, with the user's own huggingface_hub and tokens.

arguments: model|dataset ID REVISION
Weights come as safetensors only: pickle files run code when they are read. The last line of stdout is the snapshot's folder; or one line
that begins with "hone: " and says what went wrong, with exit code 1. Progress bars go to stderr.
"""
import sys

sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]  # a file of the working folder is never imported

MODEL_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "*.txt", "*.model"]
DATA_FILES = ["*.parquet", "*.jsonl", "*.json", "*.csv", "*.tsv", "*.arrow", "*.jsonl.gz", "*.json.gz", "*.csv.gz", "*.zst", "*.md"]
LEFT_OUT = ["original/*", "onnx/*", "*checkpoint-*/*"]


def fail(sentence):
    print(f"hone: {' '.join(sentence.split())[:600]}")
    sys.exit(1)


def main():
    kind, name, revision = sys.argv[1:4]
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError:
        fail("the package huggingface_hub is not installed for this Python; `pip install huggingface_hub` adds it")
    try:
        if kind == "model":
            files = HfApi().list_repo_files(name, revision=revision, repo_type=kind)
            if not any(file.endswith(".safetensors") for file in files):
                pickles = [file for file in files if file.endswith((".bin", ".pt", ".pth"))]
                found = f"only {pickles[0]}, a pickle file, which runs code when it is read" if pickles else "no weights"
                fail(f"{name} has no .safetensors file: {found}; convert it with transformers' save_pretrained")
        print(snapshot_download(name, revision=revision, repo_type=kind, allow_patterns=MODEL_FILES if kind == "model" else DATA_FILES,
                                ignore_patterns=LEFT_OUT))
    except Exception as error:  # noqa: BLE001 - huggingface_hub's own sentence is the best there is
        fail(f"{type(error).__name__}: {error}")


main()
