#!/usr/bin/env python3
"""Real launchers start the same run of two ranks: torchrun, mpirun, srun and `hone launch` give the bytes of one process, and
each one's way to stop a job saves it.

Slurm's daemons are started here, for this host, with a key and ports of their own, and are ended again. A launcher that is not
installed is skipped by its name.

Prints `ok NAME`, `not ok NAME` or `skip NAME` a check. usage: launchers.py [--only WORD] [--hone PROGRAM]
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from ranks import SOURCE, Runs, difference, free_port, report, results, write_data

LIMIT_S = 170
SLURM = """ClusterName=hone
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
SlurmdParameters=config_overrides
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """munged, slurmctld and slurmd of this host, in a folder of their own."""

    PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "scancel", "sinfo")

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        folder.mkdir()
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        host = socket.gethostname().split(".")[0]
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        (folder / "slurm.conf").write_text(
            SLURM.format(host=host, folder=folder, control=free_port(), node=free_port(), user=user))
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        self.start("munged", "--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket",
                   f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed")
        self.wait(lambda: (folder / "munge.socket").exists())
        self.start("slurmctld", "-D", "-c")
        self.start("slurmd", "-D", "-N", host)
        self.wait(lambda: "idle" in self.say("sinfo", "-h", "-o", "%T"))

    def start(self, *words):
        with (self.folder / f"{words[0]}.out").open("w") as out:
            self.daemons.append(subprocess.Popen(words, env=self.environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True))

    def say(self, *words):
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=30, check=False).stdout

    def wait(self, holds):
        end = time.monotonic() + 30
        while not holds():
            if time.monotonic() > end:
                told = "\n".join(path.read_text(errors="replace")[-600:] for path in sorted(self.folder.glob("*.log")))
                self.end()
                raise RuntimeError(f"Slurm does not start here:\n{told}")
            time.sleep(0.2)

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def torchrun():
    """The words of a torchrun that starts here, and its environment; none where there is no torch with a Python that runs it."""
    site = SOURCE / "third_party/site"
    for python, path in ((SOURCE / "third_party/parity-venv/bin/python", ""), (SOURCE / "third_party/parity-venv/bin/python", site),
                         (sys.executable, ""), (sys.executable, site)):
        environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
        if not pathlib.Path(python).exists():
            continue
        if subprocess.run([python, "-c", "import torch.distributed.run"], env=environment, capture_output=True, check=False).returncode == 0:
            return [str(python), "-m", "torch.distributed.run", "--no-python", "--nproc_per_node", "2", "--master_port", str(free_port())], environment
    return None, None


def launchers(hone, slurm):
    """name: (words before the command, environment, how it is told to stop); None: not here."""
    plain = {**os.environ, "OMP_NUM_THREADS": "1"}
    torch_words, torch_environment = torchrun()
    mpi = ["mpirun", "-n", "2", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    return {
        "hone launch": ([hone, "launch", "--nproc", "2"], plain, lambda one: one.send_signal(signal.SIGTERM)),
        "torchrun": (torch_words, torch_environment, lambda one: one.send_signal(signal.SIGTERM)) if torch_words else None,
        # mpirun gives its processes one second after SIGTERM; it passes SIGUSR1 on
        "mpirun": (mpi, plain, lambda one: one.send_signal(signal.SIGUSR1)) if shutil.which("mpirun") else None,
        "srun": (["srun", "-n", "2", "--overcommit"], {**slurm.environment, "OMP_NUM_THREADS": "1"},
                 lambda one: slurm.say("scancel", "--me")) if slurm else None,
    }


def start(words, environment):
    return subprocess.Popen([str(word) for word in words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            start_new_session=True)


def ended(process):
    """Exit code and output; the whole session is killed when it takes too long."""
    try:
        return process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return "it did not end\n" + process.communicate()[0]


def check_equal(runs, name, launcher, expected):
    words, environment, _ = launcher
    output = runs.folder / name.replace(" ", "_")
    process = start([*words, *runs.words("sft", output, 1)[0 if name != "hone launch" else 1:]], environment)
    said = ended(process)
    if process.returncode != 0:
        return report(name, False, f"exit {process.returncode}\n{said[-2500:]}")
    if "2 ranks share each step" not in said:
        return report(name, False, f"not a run of two ranks\n{said[-1500:]}")
    why = difference(expected, results(output), 0)
    return report(f"{name}: the bytes of one process", not why, why)


def check_stopped(runs, name, launcher):
    words, environment, stop = launcher
    output = runs.folder / f"{name.replace(' ', '_')}-stopped"
    command = runs.words("sft", output, 1, {"max_steps": 100000, "logging_steps": 1000}.items())
    process = start([*words, *command[0 if name != "hone launch" else 1:]], environment)
    end = time.monotonic() + 60
    while not (output / "plan.yaml").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(1.5)
    stop(process)
    said = ended(process)
    saved = [path.name for path in output.glob("checkpoint-*")]
    return report(f"{name}: its way to stop a job saves", len(saved) == 1 and bool(re.search(r"^stopped +after step", said, re.M)),
                  f"exit {process.returncode}, {saved}\n{said[-2500:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    passed, slurm = True, None
    with tempfile.TemporaryDirectory(prefix="hone-launchers-") as temporary:
        folder = pathlib.Path(temporary)
        os.environ["PATH"] += ":/usr/sbin:/sbin"  # Slurm's daemons
        runs = Runs(options.hone.resolve(), folder)
        write_data(folder)
        try:
            if all(shutil.which(program) for program in Slurm.PROGRAMS) and options.only in "srun":
                try:
                    slurm = Slurm(folder / "slurm")
                except RuntimeError as error:
                    print(f"skip ranks: srun ({str(error).splitlines()[0]})")
            codes, texts = runs.run(runs.words("sft", folder / "alone", 2), 1)
            if any(codes):
                return 0 if report("a run of one process", False, texts[0][-2000:]) else 1
            expected = results(folder / "alone")
            for name, launcher in launchers(runs.hone, slurm).items():
                if options.only not in name:
                    continue
                if launcher is None:
                    print(f"skip ranks: {name} (it is not installed here)")
                    continue
                passed &= check_equal(runs, name, launcher, expected)
                passed &= check_stopped(runs, name, launcher)
        finally:
            if slurm:
                slurm.end()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
