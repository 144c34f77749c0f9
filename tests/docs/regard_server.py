"""A server that runs `regard` in forks of a process that has imported torch.

A page has up to 20 commands, and each would import torch, which takes longer than most of them.
The server is a process without the types of shapes of the tests. The program `regard`, which the
scripts of the pages find first, sends it the arguments, the environment, the folder and the three
open files of a command. A fork has all of them, so a command has what it would have alone, but for
its parent. `regard serve` is run without the server, since it is stopped by a signal.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IS_SUPPORTED = sys.platform == "linux"
"""Other systems cannot fork a process that has imported torch."""
MODULES = ("torch._dynamo", "matplotlib.pyplot", "sacrebleu", "tokenizers", "PIL.Image")
PROGRAM = """#!{python} -SE
import json, os, socket, sys
if sys.argv[1:2] == ["serve"]:
    os.execv({program!r}, [{program!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    command = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}
    content = json.dumps(command).encode()
    socket.send_fds(server, [len(content).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(content)
    status = server.recv(1)
sys.exit(status[0] if status else "regard: the command ended without an exit status")
"""


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Path]:
    """Start the server and return the folder of its program `regard`."""
    program = shutil.which("regard", path=str(Path(sys.executable).parent))
    bin_folder, address = folder / "bin", str(folder / "socket")
    bin_folder.mkdir()
    file = bin_folder / "regard"
    file.write_text(PROGRAM.format(python=sys.executable, program=program, address=address))
    file.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        command = [sys.executable, "-m", "tests.docs.regard_server", str(listener.fileno())]
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "MPLBACKEND": "Agg"},
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    try:
        yield bin_folder
    finally:
        server.kill()
        server.wait()


def serve(listener: socket.socket) -> None:
    """Import the commands, then run each command that comes in a fork."""
    from regard.cli.main import COMMANDS, module_of

    for name in (*MODULES, "regard.__main__"):
        importlib.import_module(name)
    for command in COMMANDS:
        module_of(command)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended forks are not waited for
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = run(connection)
            connection.send(bytes([status]))
            os._exit(status)
        connection.close()


def run(connection: socket.socket) -> int:
    """Run the command of a connection in this process, and return its exit status."""
    from regard.__main__ import main

    size, files, _, _ = socket.recv_fds(connection, 4, 3)
    with connection.makefile("rb") as content:
        command = json.loads(content.read(int.from_bytes(size, "big")))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    sys.argv = ["regard", *command["arguments"]]
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
