"""Fresh systems of Debian and Ubuntu, made by debootstrap and entered by chroot, for the tests that install hone in one."""
import os
import pathlib
import re
import shutil
import subprocess
import time

from checks import SOURCE, Skip

ROOTS = SOURCE / "third_party/roots"
DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
SECURITY = {DEBIAN: "http://deb.debian.org/debian-security", UBUNTU: "http://security.ubuntu.com/ubuntu"}
SYSTEMS = {"bookworm": ("Debian 12", DEBIAN, "main"), "trixie": ("Debian 13", DEBIAN, "main"),
           "jammy": ("Ubuntu 22.04", UBUNTU, "main,universe"), "noble": ("Ubuntu 24.04", UBUNTU, "main,universe")}
SCRIPTS = pathlib.Path("/usr/share/debootstrap/scripts")
TRUSTED = "usr/local/share/ca-certificates"


def system(name, packages=""):
    """Its folder with no more than debootstrap's smallest set and `packages`; made where it is not there."""
    root = ROOTS / (name if packages else f"{name}-minbase")
    if (root / "complete").is_file():
        return root
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise Skip("debootstrap makes this system, as root; Debian's package debootstrap")
    _, mirror, components = SYSTEMS[name]
    keys = sorted(pathlib.Path("/usr/share/keyrings").glob("ubuntu-archive-keyring.*" if mirror == UBUNTU else "debian-archive-keyring.*"))
    if not keys:
        raise Skip("there are no keys to check its packages with: Debian's package ubuntu-keyring")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    command = ["debootstrap", "--variant=minbase", f"--components={components}", f"--keyring={keys[0]}"]
    command += [f"--include={packages}"] if packages else []
    command += [name, str(root), mirror]
    if mirror == UBUNTU and not (SCRIPTS / name).exists():  # debootstrap is older than the system; all of Ubuntu's have this script
        command.append(str(SCRIPTS / "gutsy"))
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise Skip(f"debootstrap could not make it: {(ended.stdout + ended.stderr).strip().splitlines()[-1:]}")
    (root / "complete").write_text("")
    return root


def updated(root, name):
    """Gives a system the sources of packages that an installed one has, and the certificates that this machine was told to trust."""
    _, mirror, components = SYSTEMS[name]
    words = components.replace(",", " ")
    lines = [f"deb {mirror} {name} {words}", f"deb {mirror} {name}-updates {words}", f"deb {SECURITY[mirror]} {name}-security {words}"]
    (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
    if list(pathlib.Path("/", TRUSTED).glob("*.crt")):
        shutil.copytree(pathlib.Path("/", TRUSTED), root / TRUSTED, dirs_exist_ok=True)


def within(root, command, mounted):
    """A shell command in the system, in /hone, with folders of the tree ({of the tree: in the system}) mounted to be read; (what ran,
    its seconds)."""
    # Its root is a mount, as that of a real system is: without that, a program in it can change no mounts.
    mounts = [f"mount --bind {root} {root}", f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
    mounts += [f"mount --bind -o ro {SOURCE / source} {root / target}" for source, target in mounted.items() if (SOURCE / source).is_dir()]
    text = " && ".join([*mounts, f"exec chroot {root} env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 bash -c 'cd /hone && '\"$0\""])
    begun = time.monotonic()
    ended = subprocess.run(["unshare", "--mount", "sh", "-c", text, command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return ended, time.monotonic() - begun


def with_sources(root, mounted):
    """/hone as of the last commit, with folders to mount on; nothing else of an earlier run."""
    here = root / "hone"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    for target in mounted.values():
        (root / target).mkdir(parents=True)
    archive = subprocess.run(["git", "-C", str(SOURCE), "archive", "HEAD"], capture_output=True)
    if archive.returncode:
        raise Skip("no git history here")
    subprocess.run(["tar", "x", "-C", str(here)], input=archive.stdout, check=True)
    ended, _ = within(root, "true", mounted)
    if ended.returncode:
        raise Skip(f"no chroot with mounts of its own: {ended.stderr.strip()[-200:]}")
    return here


def minutes(seconds):
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def last_lines(ended):
    return re.sub(r"\n{2,}", "\n", f"{ended.stdout[-2500:]}\n{ended.stderr[-2500:]}")
