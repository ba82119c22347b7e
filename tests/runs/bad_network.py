#!/usr/bin/env python3
"""Two ranks on a bad network: 50 ms each way, of 100 packets one is lost; and a link that is cut in the middle of a collective.

Each rank has a network namespace with a TUN device. This program reads each packet from one device, and writes it to the other one
50 ms later, or drops it. The run ends with the bytes of one process. After a cut every rank ends within the time-out, with a table of
all ranks; the newest checkpoint is whole, and the resumed run ends with the same bytes.

Needs root, /dev/net/tun and iproute2; it is skipped by name where they are absent.
Prints `ok NAME`, `not ok NAME` or `skip NAME`. usage: bad_network.py [--only WORD] [--delay MS] [--loss SHARE] [--hone PROGRAM]
"""
import argparse
import contextlib
import fcntl
import heapq
import os
import pathlib
import random
import re
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time

from ranks import SOURCE, Runs, difference, free_port, report, results, write_data

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
ADDRESSES = ("10.77.3.1", "10.77.3.2")
TIMEOUT_S = 8
MOST = {"max_steps": 6, "save_strategy": "steps", "save_steps": 2, "eval_strategy": "no", "eval_steps": None}


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Wire:
    """Two namespaces, and a thread that carries packets between them."""

    def __init__(self, delay, loss):
        self.names = [f"hone{os.getpid()}{side}" for side in "ab"]
        self.delay, self.loss, self.cut, self.stop = delay, loss, False, False
        self.carried = self.lost = 0
        self.devices = []
        for name, own, other in zip(self.names, ADDRESSES, ADDRESSES[::-1]):
            ip("netns", "add", name)
            self.devices.append(self.device(name))
            inside = ("netns", "exec", name, "ip")
            ip(*inside, "address", "add", own, "peer", other, "dev", "hone0")
            ip(*inside, "link", "set", "hone0", "mtu", "1500", "up")
            ip(*inside, "link", "set", "lo", "up")
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    @staticmethod
    def device(name):
        """Its TUN device's descriptor: made inside, and good outside. The namespace is entered by a thread of its own."""
        found = []

        def enter():
            import ctypes
            libc = ctypes.CDLL(None, use_errno=True)
            with open(f"/run/netns/{name}", "rb") as space:
                if libc.setns(space.fileno(), 0x40000000) != 0:
                    return
            tun = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"hone0", IFF_TUN | IFF_NO_PI))
            os.set_blocking(tun, False)
            found.append(tun)
        one = threading.Thread(target=enter)
        one.start()
        one.join()
        if not found:
            raise OSError("no TUN device in a namespace")
        return found[0]

    def carry(self):
        chance, waiting, count = random.Random(3), [], 0
        other = dict(zip(self.devices, self.devices[::-1]))
        while not self.stop:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, to, packet = heapq.heappop(waiting)
                if not self.cut:
                    with contextlib.suppress(OSError):
                        os.write(to, packet)
            limit = min(0.1, waiting[0][0] - now) if waiting else 0.1
            for device in select.select(self.devices, [], [], max(0, limit))[0]:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        packet = os.read(device, 65536)
                        count += 1
                        if self.cut or chance.random() < self.loss:
                            self.lost += 1
                            continue
                        self.carried += 1
                        heapq.heappush(waiting, (time.monotonic() + self.delay, count, other[device], packet))

    def close(self):
        self.stop = True
        self.thread.join()
        for device in self.devices:
            os.close(device)
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def start(runs, wire, words):
    port = free_port()
    processes = []
    for rank, (name, address) in enumerate(zip(wire.names, ADDRESSES)):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                       "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": str(port)}
        said = (runs.folder / f"rank{rank}-{port}.txt").open("w+")
        processes.append((subprocess.Popen(["ip", "netns", "exec", name, *words], env=environment, stdout=said, stderr=subprocess.STDOUT), said))
    return processes


def ended(processes, limit=170):
    deadline = time.monotonic() + limit
    codes, texts = [], []
    for process, said in processes:
        try:
            codes.append(process.wait(max(1, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            codes.append("hangs")
        said.seek(0)
        texts.append(said.read())
        said.close()
    return codes, texts


def whole(runs, case, more):
    output = runs.folder / f"{case}-whole-{more['max_steps']}"
    if output.exists():
        return results(output)
    codes, texts = runs.run(runs.words(case, output, 2, more.items()), 1)
    if any(codes):
        raise RuntimeError(texts[0][-2000:])
    return results(output)


def check_lossy(runs, options, case):
    more = {**MOST, "max_steps": 4}
    expected = whole(runs, case, more)
    wire = Wire(options.delay / 1000, options.loss)
    try:
        began = time.monotonic()
        output = runs.folder / f"{case}-lossy"
        codes, texts = ended(start(runs, wire, runs.words(case, output, 1, more.items())))
        seconds = time.monotonic() - began
    finally:
        wire.close()
    why = difference(expected, results(output), 0) if not any(codes) else f"{codes}: {texts[0][-2000:]}"
    share = wire.lost / max(1, wire.carried + wire.lost)
    return report(f"{case}, {options.delay} ms each way and {100 * share:.1f} % of {wire.carried + wire.lost} packets lost: equal bytes "
                  f"after {seconds:.0f} s", not why, why)


def check_cut(runs, options, case, seed):
    """The link is cut at a random moment of the run's steps."""
    more = {**MOST, "ddp_timeout": TIMEOUT_S}
    expected = whole(runs, case, more)
    output = runs.folder / f"{case}-cut-{seed}"
    wire = Wire(options.delay / 1000, 0)
    try:
        processes = start(runs, wire, runs.words(case, output, 1, more.items()))
        deadline = time.monotonic() + 60
        while not list(output.glob("checkpoint-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(random.Random(seed).uniform(0, 0.6))
        wire.cut = True
        began = time.monotonic()
        codes, texts = ended(processes, 90)
        seconds = time.monotonic() - began
    finally:
        wire.close()
    if codes == [0, 0]:
        return report(f"{case}, cut {seed}: after its end", True)
    named = all(f"rank {1 - rank}" in text and re.search(r"^ *rank +host +step", text, re.M) for rank, text in enumerate(texts))
    passed = report(f"{case}, cut {seed}: both ranks end within the time-out, with the table", codes == [75, 75] and named and seconds < 45,
                    f"{codes} after {seconds:.0f} s\n{texts[0][-1800:]}\n{texts[1][-1800:]}")
    wire = Wire(0.001, 0)
    try:
        words = runs.words(case, output, 1, {**more, "resume_from_checkpoint": "true"}.items())
        codes, texts = ended(start(runs, wire, words))
    finally:
        wire.close()
    why = difference(expected, results(output), 0) if not any(codes) else f"{codes}: {texts[0][-2000:]}"
    return passed & report(f"{case}, cut {seed}: resumed, equal bytes; {seconds:.0f} s to the end of both", not why, why)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hone", type=pathlib.Path, default=SOURCE / "build/hone")
    parser.add_argument("--only", default="")
    parser.add_argument("--delay", type=float, default=50)
    parser.add_argument("--loss", type=float, default=0.01)
    options = parser.parse_args()
    try:
        Wire(0, 0).close()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skip ranks: a bad network (no TUN devices and namespaces here: {error})")
        return 0
    passed = True
    with tempfile.TemporaryDirectory(prefix="hone-network-") as folder:
        runs = Runs(options.hone.resolve(), pathlib.Path(folder))
        write_data(runs.folder)
        for case in ("sft", "grpo"):
            if options.only in f"lossy {case}":
                passed &= check_lossy(runs, options, case)
        for case, seed in (("sft", 1), ("sft", 2), ("grpo", 3)):
            if options.only in f"cut {case}":
                passed &= check_cut(runs, options, case, seed)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
