"""Operations: what GKE answers to a change, and how a caller follows it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods, now
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.errors import google_error, running_operation
from slicewright.rehearsal.clouds.gcp.state import OPERATIONS

API = "https://container.googleapis.com/v1"
log = logging.getLogger(__name__)


class Operations:
    """A target is the full resource name of the cluster or node pool that changes."""

    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._tasks = context.tasks

    def methods(self) -> Methods:
        return {"projects.locations.operations.get": self._get}

    def begin(self, task: str, operation_type: str, target: str, **arguments: Any) -> JsonObject:
        """Starts the task, which must end in `finish`; returns the running operation."""
        path, operation = _operation(operation_type, target)
        operation |= {"status": "RUNNING", "selfLink": f"{API}/{path}"}
        self._store.put(OPERATIONS, path, operation)
        self._tasks.begin(task, operation=path, target=target, **arguments)
        return operation

    def finish(self, arguments: JsonObject, step: Callable[[], None]) -> None:
        """Runs the step and closes the operation of the task's arguments, with the step's error."""
        error: JsonObject | None = None
        try:
            step()
        except CloudError as e:
            error = {"code": e.code, "message": e.message}
        except Exception as e:
            log.exception("%s", arguments)
            error = {
                "code": 13,
                "message": f"internal error of the rehearsal's cloud: {type(e).__name__}: {e}",
            }
        with self._store.lock:
            operation = self._store.get(OPERATIONS, arguments["operation"]) or {}
            operation |= {"status": "DONE", "endTime": now()}
            if error:
                operation |= {"error": error, "statusMessage": error["message"]}
            self._store.put(OPERATIONS, arguments["operation"], operation)

    def done(self, operation_type: str, target: str) -> JsonObject:
        """A finished operation, for a change that took no time."""
        path, operation = _operation(operation_type, target)
        operation |= {"status": "DONE", "endTime": now()}
        return self._store.put(OPERATIONS, path, operation)

    def refuse_while_running(self, target: str) -> None:
        """Raises CloudError while an operation changes the target or a part of it."""
        link = f"{API}/{target}"
        for operation in self._store.values(OPERATIONS):
            changes = operation["targetLink"]
            if operation["status"] == "RUNNING" and f"{changes}/".startswith(f"{link}/"):
                raise running_operation(f"{operation['name']} ({operation['operationType']})")

    def _get(self, params: JsonObject, body: JsonObject) -> JsonObject:
        operation = self._store.get(OPERATIONS, params["name"])
        if operation is None:
            raise google_error(404, f"Not found: {params['name']}.")
        return operation


def _operation(operation_type: str, target: str) -> tuple[str, JsonObject]:
    """The full resource name of a new operation, and its fields but the status."""
    _, project, _, location, *_ = target.split("/")
    name = f"operation-{secrets.token_hex(12)}"
    return f"projects/{project}/locations/{location}/operations/{name}", {
        "name": name,
        "operationType": operation_type,
        "startTime": now(),
        "targetLink": f"{API}/{target}",
        "location": location,
        "zone": location,
    }
