"""The pods that prove the way of a pod to its device, parsed from the API server's objects. Pure.

Such a pod is scheduled like a tenant's, requests one device of each of the pool's resources, and
runs `slicewright-agent prove` on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from slicewright.fleet_controller.objects.bounds import (
    LONGEST_NAME,
    identifier,
    name,
    seconds,
    text,
    texts,
)

NODE_ANNOTATION: Final = "slicewright.io/node"
KEY_ANNOTATION: Final = "slicewright.io/proof"
"""The digest of boot and layout, as in `ProofPod.key`."""
WRONG_DEVICE: Final = 4
"""Exit code of `slicewright-agent prove --allotted` for a device that was not requested."""
FAILED: Final = 1
"""Its exit code for a device that did not compute."""

Progress = Literal["unscheduled", "started", "succeeded", "failed"]


@dataclass(frozen=True, kw_only=True)
class ProofPodSettings:
    """The settings of a pool's proof pods, as in its spec."""

    image: str
    pull_secrets: tuple[str, ...]
    code: str
    """Name of the ConfigMap with the program."""
    code_directory: str
    command: tuple[str, ...]
    """The command without its arguments."""
    devices: tuple[tuple[str, str], ...]
    """Extended resource, and the device that must be behind it."""
    environment: Mapping[str, str]
    tolerations: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class ProofPod:
    name: str
    node: str
    """The node that it is for."""
    key: str
    """Digest of the boot and the layout that it proves."""
    created: float
    progress: Progress
    why: str = ""
    """Why it is not scheduled, or has failed."""
    exit_codes: tuple[int, ...] = ()
    """The exit codes of its containers that have ended."""
    leaving: bool = False
    """True if it is being deleted."""


def read_settings(raw: Mapping[str, Any] | None) -> ProofPodSettings | None:
    """Parses `spec.verification.pod`. Returns None if the pool has no such pods."""
    if not raw:
        return None
    return ProofPodSettings(
        image=text(raw["image"]),
        pull_secrets=tuple(text(secret) for secret in raw.get("imagePullSecrets") or ()),
        code=text(raw["codeConfigMap"], LONGEST_NAME),
        code_directory=text(raw["codeDirectory"], LONGEST_NAME),
        # The command holds the source of a small program.
        command=tuple(str(word) for word in raw["command"]),
        devices=tuple(
            (text(device["resource"], LONGEST_NAME), text(device["device"], LONGEST_NAME))
            for device in raw["devices"]
        ),
        environment=texts(raw.get("environment")),
        tolerations=tuple(texts(toleration) for toleration in raw.get("tolerations") or ()),
    )


def read_proof_pod(raw: Mapping[str, Any]) -> ProofPod:
    """Parses a Pod. Raises KeyError, TypeError or ValueError for anything else."""
    meta, status = raw["metadata"], raw.get("status") or {}
    notes = texts(meta.get("annotations"))
    ended = tuple(
        (container.get("state") or {}).get("terminated") or {}
        for container in status.get("containerStatuses") or ()
    )
    progress, why = _progress(status, ended)
    return ProofPod(
        name=name(meta),
        node=identifier(notes.get(NODE_ANNOTATION)),
        key=identifier(notes.get(KEY_ANNOTATION)),
        created=seconds(meta.get("creationTimestamp")),
        progress=progress,
        why=why,
        exit_codes=tuple(int(state["exitCode"]) for state in ended if "exitCode" in state),
        leaving="deletionTimestamp" in meta,
    )


def _progress(
    status: Mapping[str, Any], ended: tuple[Mapping[str, Any], ...]
) -> tuple[Progress, str]:
    phase = status.get("phase")
    if phase == "Succeeded":
        return "succeeded", ""
    if phase == "Failed":
        messages = [
            text(state.get("message") or f"exit code {state.get('exitCode')}")
            for state in ended
            if state.get("exitCode")
        ]
        cause = [text(status.get("reason")), text(status.get("message"))]
        return "failed", ": ".join(filter(None, (*cause, *messages)))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled":
            if condition.get("status") == "True":
                return "started", ""
            return "unscheduled", text(condition.get("message"))
    return "unscheduled", ""
