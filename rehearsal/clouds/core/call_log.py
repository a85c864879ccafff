"""Every call of the clouds as a line of JSON, for tests and people that ask what was called."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError, ConnectionLost

FILE = Path("log") / "cloud-calls.jsonl"
_SECRET = re.compile(r"password|secret|token|user-?data|private-?key|startup-script", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class LoggedCall:
    at: str
    """When it began, in UTC."""
    seconds: float
    """Until it was answered."""
    service: str
    operation: str
    parameters: JsonObject
    """Without secrets."""
    code: int | None
    """HTTP status of the answer; None where an injected fault broke the connection."""
    error: str | None
    """The cloud's name for the refusal."""


class CallLog:
    """Appends to E/log/cloud-calls.jsonl, which only this user can read."""

    def __init__(self, environment: Path) -> None:
        self._path = environment / FILE
        self._lock = threading.Lock()

    @contextmanager
    def call(self, service: str, operation: str, parameters: JsonObject) -> Iterator[None]:
        """Logs what is done inside of it, however it ends."""
        began = datetime.now(UTC)
        code: int | None = 200
        error = None
        try:
            yield
        except CloudError as e:
            code, error = e.code, e.reason
            raise
        except ConnectionLost:
            code = None
            raise
        except Exception as e:
            code, error = 500, type(e).__name__
            raise
        finally:
            self._append(
                LoggedCall(
                    at=began.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                    seconds=round((datetime.now(UTC) - began).total_seconds(), 4),
                    service=service,
                    operation=operation,
                    parameters=_without_secrets(parameters),
                    code=code,
                    error=error,
                )
            )

    def _append(self, call: LoggedCall) -> None:
        line = json.dumps(asdict(call), default=str) + "\n"
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with os.fdopen(os.open(self._path, flags, 0o600), "w") as file:
                file.write(line)


def read(environment: Path) -> list[LoggedCall]:
    """In the order in which they were answered."""
    try:
        text = (environment / FILE).read_text()
    except FileNotFoundError:
        return []
    return [LoggedCall(**json.loads(line)) for line in text.splitlines()]


def _without_secrets(value: Any) -> Any:
    match value:
        case dict():
            return {
                k: "(not logged)" if _SECRET.search(k) and v else _without_secrets(v)
                for k, v in value.items()
            }
        case list():
            return [_without_secrets(v) for v in value]
        case _:
            return value
