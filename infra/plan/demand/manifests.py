"""Demand classes of Kubernetes manifests: the devices that their pods request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from slicewright.infra.plan.demand.pod_devices import (
    GPU,
    MIG,
    classes_of_pods,
    requested_devices,
)

_SUFFIXES: Final = (".yaml", ".yml", ".json")


class BadManifests(Exception):
    """The directory has no demand that could be read. The message says why."""


def classes_of(directory: Path) -> list[dict[str, Any]]:
    """Returns `demand.classes` of a directory's manifests, sorted by name.

    Raises BadManifests.
    """
    if not _is_directory(directory):
        raise BadManifests(f"{directory}: is no directory; name one with manifests")
    classes: dict[str, dict[str, Any]] = {}
    for file in sorted(directory.rglob("*")):
        if file.suffix in _SUFFIXES:
            for demand in _classes_of_file(file):
                if demand["name"] in classes:
                    raise BadManifests(f"{file}: {demand['name']} has a manifest already")
                classes[demand["name"]] = demand
    if not classes:
        raise BadManifests(f"{directory}: no manifest requests {GPU} or {MIG}<profile>")
    return [classes[name] for name in sorted(classes)]


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # the name is too long


def _classes_of_file(file: Path) -> list[dict[str, Any]]:
    try:
        return [demand for workload in _objects(file) for demand in _classes(workload)]
    except (AttributeError, KeyError, TypeError, ValueError):
        # Only the API server knows all of a manifest's schema; a wrong one fails here or there.
        raise BadManifests(f"{file}: is no valid Kubernetes manifest") from None


def _objects(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as e:
        line = str(e).splitlines()[0]
        raise BadManifests(f"{file}: cannot be read ({line}); render templates first") from None
    for document in documents:
        if isinstance(document, Mapping):
            yield from document["items"] if document.get("kind") == "List" else (document,)


def _classes(workload: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    pods, pod_spec = _pods(workload)
    devices = requested_devices(pod_spec)
    name = workload["metadata"]["name"] if devices and pods else ""
    return classes_of_pods(name, pods, devices)


def _pods(workload: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Returns the number of pods and their spec. Both are empty for other kinds."""
    spec = workload.get("spec") or {}
    kind = workload.get("kind")
    if kind == "Pod":
        return 1, spec
    if kind == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    number = "parallelism" if kind in ("Job", "CronJob") else "replicas"
    if kind not in ("Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob"):
        return 0, {}
    pods = spec.get(number)
    return 1 if pods is None else int(pods), (spec.get("template") or {}).get("spec") or {}
