"""Uploads to Hugging Face's hub with the user's own huggingface_hub; the token stays in this process.

Descriptor 3 is a socket to hone (commands/hub/hub_push.h). One line of JSON comes:
  repository: "owner/name" or "name", private: bool or null, token: or null, revision: a branch or null, message
  folder: what the repository will hold; null: the repository is made, and nothing uploaded
and one goes back: {"repository": "owner/name", "url": ...} or {"failed": a sentence}.
"""
import json
import socket
import sys

sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]  # a file of the working folder is never imported


def upload(job):
    from huggingface_hub import HfApi
    api = HfApi(token=job["token"])
    made = api.create_repo(job["repository"], private=job["private"], exist_ok=True)
    repository, url = made.repo_id, str(made)
    if job["revision"] and job["revision"] != "main":
        api.create_branch(repository, branch=job["revision"], exist_ok=True)
    if job["folder"]:
        done = api.upload_folder(repo_id=repository, folder_path=job["folder"], commit_message=job["message"], revision=job["revision"])
        url = getattr(done, "commit_url", None) or url
    return {"repository": repository, "url": url}


def main():
    channel = socket.socket(fileno=3)
    channel.set_inheritable(False)
    job = json.loads(channel.makefile("r", encoding="utf-8").readline())
    try:
        said = upload(job)
    except ImportError:
        said = {"failed": "the package huggingface_hub is not installed for this Python; `pip install huggingface_hub` adds it"}
    except Exception as error:  # noqa: BLE001 - huggingface_hub's own sentence is the best there is
        text = " ".join(f"{type(error).__name__}: {error}".split())
        said = {"failed": (text.replace(job["token"], "***") if job["token"] else text)[:600]}
    channel.sendall(json.dumps(said).encode() + b"\n")


main()
