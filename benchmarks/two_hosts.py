"""Train one model on two hosts, and compare its losses with those of one process.

    sudo python benchmarks/two_hosts.py

The hosts are network namespaces of Linux, connected by a virtual cable. torchrun starts one process
on each, and the processes find each other by its c10d rendezvous. The namespaces are removed at the
end, also after a failure. The script needs root and the command `ip`.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOSTS = ("regard-host-0", "regard-host-1")
CABLE = "regard-cable"
"""Beginning of the names of the network devices."""
ADDRESSES = ("10.231.77.1", "10.231.77.2")
PORT = 29400
TOLERANCE = 1e-5
"""Largest difference of a loss, as a fraction of the loss."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recipe", default="copy")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--sharding", choices=("none", "full"), default="none")
    parser.add_argument("--seconds", type=float, default=600, help="limit of each training")
    options = parser.parse_args()
    # As an exception, the signal ends the block that removes the hosts.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder) / "one", Path(folder) / "two"
        arguments = [
            *("train", options.recipe, "--model.size", "16", "--model.dropout", "0"),
            *("--training.log-every", "1", "--training.updates", str(options.updates)),
            *("--training.sharding", options.sharding),
        ]
        began = time.perf_counter()
        with network():
            train_on_hosts([*arguments, "-o", str(two)], options.seconds)
        seconds = time.perf_counter() - began
        finish(
            [started([sys.executable, "-m", "regard", *arguments, "-o", str(one)])], options.seconds
        )
        pairs = list(zip(losses(one), losses(two), strict=True))
    difference = max(abs(ours - theirs) / ours for ours, theirs in pairs)
    print(f"{len(pairs)} updates on two hosts in {seconds:.0f} s, sharding {options.sharding}")
    print(f"largest difference from one process: {difference:.1e} of the loss")
    if len(pairs) != options.updates or not difference <= TOLERANCE:
        print(f"failed: expected {options.updates} updates and at most {TOLERANCE}")
        return 1
    return 0


@contextmanager
def network() -> Iterator[None]:
    """Two hosts with a cable between them, until the block ends."""
    remove_network()  # of a script that was killed
    try:
        for host in HOSTS:
            ip("netns", "add", host)
        ends = [f"{CABLE}-{number}" for number in range(2)]
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for host, end, address in zip(HOSTS, ends, ADDRESSES, strict=True):
            ip("link", "set", end, "netns", host)
            ip("-n", host, "address", "add", f"{address}/24", "dev", end)
            ip("-n", host, "link", "set", end, "up")
            ip("-n", host, "link", "set", "lo", "up")
        yield
    finally:
        remove_network()


def remove_network() -> None:
    """Remove the hosts; a cable is removed with its ends."""
    for host in HOSTS:
        subprocess.run(["ip", "netns", "delete", host], capture_output=True, check=False)
    subprocess.run(["ip", "link", "delete", f"{CABLE}-0"], capture_output=True, check=False)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def train_on_hosts(arguments: list[str], seconds: float) -> None:
    """Run `regard` with these arguments by torchrun, in one process on each host."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    torchrun += ["--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "regard"]
    torchrun += ["--rdzv-endpoint", f"{ADDRESSES[0]}:{PORT}"]
    hosts = []
    for number, (host, address) in enumerate(zip(HOSTS, ADDRESSES, strict=True)):
        # Both hosts have the name of this machine, so options give the network device, and
        # which host has the store of the rendezvous.
        command = ["ip", "netns", "exec", host, *torchrun, "--local-addr", address]
        command += ["--rdzv-conf", f"is_host={int(number == 0)}"]
        command += ["-m", "regard", *arguments]
        hosts.append(started(command, GLOO_SOCKET_IFNAME=f"{CABLE}-{number}"))
    finish(hosts, seconds)


def started(command: list[str], **environment: str) -> subprocess.Popen[bytes]:
    environment = {"OMP_NUM_THREADS": "1", **os.environ, **environment}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def finish(running: list[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait for processes. If one of them fails or takes too long, end the others and the script."""
    deadline = time.monotonic() + seconds
    try:
        while any(process.poll() is None for process in running):
            if any(process.poll() for process in running) or time.monotonic() > deadline:
                break
            time.sleep(0.2)
    finally:
        for process in running:
            process.terminate()
            process.wait()
    statuses = [process.returncode for process in running]
    if any(statuses):
        raise SystemExit(f"a training failed or took too long: exit statuses {statuses}")


def losses(run: Path) -> list[float]:
    lines = map(json.loads, (run / "log.jsonl").read_text(encoding="utf8").splitlines())
    values = [line["loss"] for line in lines if line["kind"] == "train"]
    if not all(map(math.isfinite, values)):
        raise SystemExit(f"{run} has losses that are not finite")
    return values


if __name__ == "__main__":
    sys.exit(main())
