"""Plugin of pytest that writes each result to a file at once, so that a kill loses none.

REGARD_GPU_RESULTS=results.jsonl python -m pytest -p tests.gpu.results ...
"""

import json
import os
from pathlib import Path


def pytest_runtest_logreport(report):
    path = os.environ.get("REGARD_GPU_RESULTS")
    is_worker = "PYTEST_XDIST_WORKER" in os.environ  # its reports reach the first process too
    if path is None or is_worker or (report.passed and report.when != "call"):
        return
    line = {
        "test": report.nodeid,
        "outcome": report.outcome,
        "seconds": round(report.duration, 3),
        "text": text_of(report),
        "properties": dict(report.user_properties) if report.when != "teardown" else {},
    }
    with Path(path).open("a", encoding="utf8") as file:
        file.write(json.dumps(line) + "\n")


def text_of(report):
    """Return the reason of a skip, or the end of the text of a failure."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    return str(report.longrepr)[-3000:] if report.failed else ""
