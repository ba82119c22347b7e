"""Downloads one repository of Hugging Face's hub into its cache, with the user's own huggingface_hub and tokens.

arguments: model ID REVISION, or dataset ID REVISION PART; PART is JSON: {"config", "data_dir", "data_files"}
Weights come as safetensors only: pickle files run code when they are read. Of a data set come README.md and the data files of the
configuration that is asked for; never scripts. The last line of stdout is the snapshot's folder; or one line that begins with "hone: "
and says what went wrong, with exit code 1. Progress bars go to stderr.
"""
import sys

sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]  # a file of the working folder is never imported

import fnmatch  # noqa: E402
import json  # noqa: E402

MODEL_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "*.txt", "*.model"]
LEFT_OUT = ["original/*", "onnx/*", "*checkpoint-*/*"]
TEXT = [".jsonl", ".ndjson", ".json", ".csv", ".tsv"]
DATA = [".parquet", ".arrow", *TEXT, *[text + packed for text in TEXT for packed in (".gz", ".zst", ".zstd")]]


def fail(sentence):
    print(f"hone: {' '.join(sentence.split())[:600]}")
    sys.exit(1)


def listed(names):
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def flat(patterns):
    """Of a pattern, a list, a mapping of splits, or a list of {split, path}."""
    if isinstance(patterns, str):
        return [patterns]
    if isinstance(patterns, dict):
        patterns = [patterns["path"]] if "path" in patterns else list(patterns.values())
    return [one for part in patterns or [] for one in flat(part)]


def configurations(name, revision, files):
    """`configs` in the YAML of README.md; empty where it has none, or cannot be read."""
    if "README.md" not in files:
        return []
    from huggingface_hub import hf_hub_download, metadata_load
    try:
        card = metadata_load(hf_hub_download(name, "README.md", repo_type="dataset", revision=revision))
        found = (card or {}).get("configs")
    except Exception:  # noqa: BLE001 - YAML that does not parse: the names of files tell, as in hone
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def places(name, revision, files, part):
    """Patterns of the paths that the run reads."""
    folder = part["data_dir"].strip("/")
    if part["data_files"]:
        return [f"{folder}/{one}" if folder else one for one in part["data_files"]]
    if folder:
        return [f"{folder}/*"]
    configs = configurations(name, revision, files)
    if not configs:
        return [f"{part['config']}/*"] if part["config"] else ["*"]
    if part["config"]:
        wanted = [one for one in configs if one.get("config_name") == part["config"]]
    else:
        wanted = [one for one in configs if one.get("default") or one.get("config_name") == "default" or len(configs) == 1]
    if not wanted:
        names = listed([str(one.get("config_name")) for one in configs])
        fail(f"{name} has the configurations {names}; set dataset_config to one of them")
    folder = str(wanted[0].get("data_dir") or "").strip("/")
    inner = flat(wanted[0].get("data_files")) or ["*"]
    return [f"{folder}/{one}" if folder else one for one in inner]


def data_files(name, revision, files, part):
    """Patterns of the data files below these places."""
    patterns = []
    found = places(name, revision, files, part)
    for place in [*found, *(one.replace("**/", "") for one in found if "**/" in one)]:
        if place.endswith(tuple(DATA)):
            patterns.append(place)
        elif place.endswith("*"):
            patterns += [place + ending for ending in DATA]
        else:
            patterns += [f"{place}/*{ending}" for ending in DATA]
    if not any(fnmatch.fnmatch(file, pattern) for file in files for pattern in patterns):
        scripts = [file for file in files if file.endswith(".py")] if not any(file.endswith(tuple(DATA)) for file in files) else []
        found = f"only {scripts[0]}, a script, which would run" if scripts else f"{listed(files) or 'an empty repository'}"
        more = "; the hub's own conversion may be there: dataset_revision: refs/convert/parquet" if scripts else ""
        fail(f"{name} has no data file that the run could read: {found}{more}")
    return ["README.md", *patterns]


def main():
    kind, name, revision = sys.argv[1:4]
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError:
        fail("the package huggingface_hub is not installed for this Python; `pip install huggingface_hub` adds it")
    try:
        files = HfApi().list_repo_files(name, revision=revision, repo_type=kind)
        if kind == "dataset":
            patterns = data_files(name, revision, files, json.loads(sys.argv[4]))
        else:
            patterns = MODEL_FILES
            if not any(file.endswith(".safetensors") for file in files):
                pickles = [file for file in files if file.endswith((".bin", ".pt", ".pth"))]
                found = f"only {pickles[0]}, a pickle file, which runs code when it is read" if pickles else "no weights"
                fail(f"{name} has no .safetensors file: {found}; convert it with transformers' save_pretrained")
        left_out = [] if kind == "dataset" else LEFT_OUT
        print(snapshot_download(name, revision=revision, repo_type=kind, allow_patterns=patterns, ignore_patterns=left_out))
    except Exception as error:  # noqa: BLE001 - huggingface_hub's own sentence is the best there is
        fail(f"{type(error).__name__}: {error}")


main()
