"""Structured logs: one JSON object a line on the standard error."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

log = logging.getLogger("regard.serving")
FIELDS = "fields"
"""Attribute of a log record with further fields."""


class JsonFormatter(logging.Formatter):
    """Formatter of log records as JSON: time (UTC), level, event, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info and record.exc_info[1]:
            line["traceback"] = "".join(traceback.format_exception(record.exc_info[1]))
        return json.dumps(line)


def log_event(event: str, **fields: Any) -> None:
    """Write a line with an event and its fields."""
    log.info(event, extra={FIELDS: fields})


def log_error(error: Exception, **fields: Any) -> None:
    """Write a line with an error, its traceback, and further fields."""
    log.error("error", exc_info=error, extra={FIELDS: fields})


def install() -> None:
    """Write the logs of the service and of its server as JSON lines. The server's own lines below
    errors are left out: the service logs each request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    levels = {"regard": logging.INFO, "uvicorn": logging.ERROR, "asyncio": logging.ERROR}
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
