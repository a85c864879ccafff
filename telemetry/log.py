"""Log lines in logfmt style on standard error: time, level, event, key=value pairs."""

from __future__ import annotations

import json
import logging
import sys
import time

from slicewright.telemetry.plain import plain

logger = logging.getLogger("slicewright")


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "facts", {})
        pairs = "".join(f" {key}={_value(value)}" for key, value in facts.items())
        event = plain(record.getMessage())
        return f"{_stamp(record.created)} {record.levelname.lower()} {event}{pairs}"


def formatter() -> logging.Formatter:
    """A formatter that writes one plain line per record, with any facts."""
    return _Lines()


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def start() -> None:
    """Starts logging to standard error. Call once."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def info(event: str, /, **facts: object) -> None:
    logger.info(event, extra={"facts": facts})


def warning(event: str, /, **facts: object) -> None:
    logger.warning(event, extra={"facts": facts})


def _value(value: object) -> str:
    text = str(value)
    quoted = not text or not text.isprintable() or any(c in text for c in ' "=')
    return plain(json.dumps(text, ensure_ascii=False)) if quoted else text
