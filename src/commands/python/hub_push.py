"""Uploads to Hugging Face's hub with the user's own huggingface_hub; the token stays in this process.

Descriptor 3 is a socket to hone (commands/hub_push.h). One line of JSON comes:
  repository: "owner/name" or "name", private: bool or null, token: or null, revision: a branch or null, message
  files: [[path in the repository, path here]]; none: the repository is made, and nothing uploaded
  staging: a folder on the disk of the files, made and removed here, where links to them are kept while they are uploaded
and one goes back: {"repository": "owner/name", "url": ...} or {"failed": a sentence}.
"""
import json
import os
import shutil
import socket
import sys
import tempfile

sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]  # a file of the working folder is never imported


def stage(job):
    """The files as the repository will hold them. Links: a checkpoint may be deleted while it is uploaded."""
    shutil.rmtree(job["staging"], ignore_errors=True)
    try:
        os.makedirs(job["staging"])
    except OSError:  # a run's folder that may only be read
        job["staging"] = tempfile.mkdtemp(prefix="hone-push-")
    for place, path in job["files"]:
        target = os.path.join(job["staging"], place)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.link(path, target)
        except OSError:  # another disk, or one without links
            shutil.copyfile(path, target)


def upload(job):
    from huggingface_hub import HfApi
    api = HfApi(token=job["token"])
    made = api.create_repo(job["repository"], private=job["private"], exist_ok=True)
    repository, url = made.repo_id, str(made)
    if job["revision"] and job["revision"] != "main":
        api.create_branch(repository, branch=job["revision"], exist_ok=True)
    if job["files"]:
        done = api.upload_folder(repo_id=repository, folder_path=job["staging"], commit_message=job["message"], revision=job["revision"])
        url = getattr(done, "commit_url", None) or url
    return {"repository": repository, "url": url}


def main():
    channel = socket.socket(fileno=3)
    channel.set_inheritable(False)
    job = json.loads(channel.makefile("r", encoding="utf-8").readline())
    try:
        if job["files"]:
            stage(job)
        said = upload(job)
    except ImportError:
        said = {"failed": "the package huggingface_hub is not installed for this Python; `pip install huggingface_hub` adds it"}
    except Exception as error:  # noqa: BLE001 - huggingface_hub's own sentence is the best there is
        text = " ".join(f"{type(error).__name__}: {error}".split())
        said = {"failed": (text.replace(job["token"], "***") if job["token"] else text)[:600]}
    shutil.rmtree(job["staging"], ignore_errors=True)
    channel.sendall(json.dumps(said).encode() + b"\n")


main()
