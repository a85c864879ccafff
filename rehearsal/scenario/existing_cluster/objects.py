"""Objects that the owner of an existing cluster has put there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from slicewright.kubeapi import Client, JsonObject
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.scenario.errors import RehearsalError

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AGAIN_S: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Makes objects as one field manager; its methods raise ApiError and Unreachable."""

    client: Client
    manager: str
    timeout_s: float

    def apply_crds(self, crds: Iterable[JsonObject]) -> None:
        """Returns when all are served."""
        by_path = {f"{_CRDS}/{crd['metadata']['name']}": crd for crd in crds}
        for path, crd in by_path.items():
            self._apply(path, crd)
        for path in by_path:
            self.wait(path, "Established")

    def apply(self, made: JsonObject) -> str:
        """The path of the object."""
        path = path_to(made)
        self._apply(path, made)
        return path

    def wait(self, path: str, condition: str) -> None:
        """Until the object has the condition. Raises RehearsalError after `timeout_s`."""
        deadline = time.monotonic() + self.timeout_s
        while condition not in set(_true(self.client.get(path))):
            if time.monotonic() > deadline:
                raise RehearsalError(
                    f"existing cluster: {path} is not {condition} after {self.timeout_s:.0f} s"
                )
            time.sleep(_AGAIN_S)

    def _apply(self, path: str, made: JsonObject) -> None:
        self.client.patch(path, made, kind="apply", fieldManager=self.manager, force="true")


def path_to(made: JsonObject) -> str:
    """Where the API server has the object."""
    metadata = made["metadata"]
    return path_of(
        made["apiVersion"], _plural(made["kind"]), metadata["name"], metadata.get("namespace")
    )


def _plural(kind: str) -> str:
    """As the kinds of Kubernetes and of the charts here are named in paths."""
    lower = kind.lower()
    if lower.endswith("y"):
        return f"{lower[:-1]}ies"
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"


def _true(found: JsonObject) -> Iterator[str]:
    for one in (found.get("status") or {}).get("conditions") or ():
        if one["status"] == "True":
            yield one["type"]
