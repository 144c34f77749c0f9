"""Processes that `--processes` started end with the process that started them."""

import os
import subprocess
import sys

import pytest

from regard.runtime.torchrun import LAUNCHER

CHILD = """
import time
from regard.runtime import torchrun
torchrun.end_with_launcher()
print("ready", flush=True)
time.sleep(60)
print("not ended", flush=True)
"""
LAUNCH = f"""
import os, subprocess, sys
os.environ[{LAUNCHER!r}] = str(os.getpid())
subprocess.run([sys.executable, "-c", {CHILD!r}])
"""


@pytest.mark.skipif(os.name != "posix", reason="parents are known on POSIX only")
def test_a_process_ends_when_its_launcher_was_killed():
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCH], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout.readline() == "ready\n"
    launcher.kill()
    out, _ = launcher.communicate(timeout=30)  # the pipe is open until the child has ended
    assert out == ""
