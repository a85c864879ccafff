"""Reads a desired state from its file's text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, get_args

from slicewright.apis.desired_state.canonical import hash_of
from slicewright.apis.desired_state.contradictions import check
from slicewright.apis.desired_state.json_reader import Reader
from slicewright.apis.desired_state.model import (
    LARGEST,
    VERSION,
    Desired,
    DesiredError,
    DesiredGpu,
    DesiredShares,
    DesiredSharing,
    Partitioner,
    SharingStrategy,
)
from slicewright.apis.desired_state.problems import abbreviate, describe_problems
from slicewright.apis.shares.engines import EngineName

_DEEPEST: Final = 8


_REQUIRED = ("version", "pool", "partitioner", "gpu_count", "gpu_models", "gpus", "resources")


_OPTIONAL = ("gpu_memory_mib", "minimum_driver", "sharing", "labels", "shares")


def parse(text: str, *, source: str = "desired state") -> Desired:
    """Parses the desired state in `text`.

    Raises DesiredError, which names `source` and every problem with its path.
    """
    if len(text) > LARGEST:
        raise DesiredError(f"{source}: longer than {LARGEST} characters, which no layout needs")
    try:
        raw = json.loads(text)
    except ValueError as e:
        raise DesiredError(f"{source}: not JSON: {e}") from None
    except RecursionError:
        raise DesiredError(f"{source}: nested too deep for a desired state") from None
    if _is_deeper(raw, _DEEPEST):
        raise DesiredError(f"{source}: nested more than {_DEEPEST} levels deep")
    reader = Reader()
    desired = _read(reader, raw)
    problems = reader.problems or (check(desired) if desired else ())
    if problems or desired is None:
        raise DesiredError(describe_problems(source, problems))
    try:
        hash_of(desired)
    except UnicodeEncodeError:
        raise DesiredError(f"{source}: half of a surrogate pair in a string") from None
    return desired


def assigned_or_declared(assigned: str, declared: Desired) -> Desired:
    """Returns the layout that the fleet controller assigned to the node: an earlier one of the
    pool.

    Returns `declared` if `assigned` is empty, invalid or for another pool. The report then names
    the hash of `declared`, so the controller does not mistake it for a report on `assigned`.
    """
    try:
        desired = parse(assigned) if assigned else declared
    except DesiredError:
        return declared
    return desired if desired.pool == declared.pool else declared


def _is_deeper(value: Any, most: int) -> bool:
    """True if lists and objects are nested in more than `most` levels."""
    level = [value]
    for _ in range(most + 1):
        containers = [node for node in level if isinstance(node, dict | list)]
        level = [
            child
            for container in containers
            for child in (container.values() if isinstance(container, dict) else container)
        ]
    return any(isinstance(node, dict | list) for node in level)


def _read(reader: Reader, raw: Any) -> Desired | None:
    if isinstance(raw, dict) and raw.get("version", VERSION) != VERSION:
        # The keys of another version are unknown: one problem, not twenty.
        reader.problems.append(f"version: must be {VERSION}, is {abbreviate(raw['version'])}")
        return None
    top = reader.mapping(raw, "", required=_REQUIRED, optional=_OPTIONAL)
    if reader.problems:
        return None
    models = reader.items(top["gpu_models"], "gpu_models")
    gpus = reader.items(top["gpus"], "gpus")
    sharing = reader.items(top.get("sharing", []), "sharing")
    memory, driver = top.get("gpu_memory_mib"), top.get("minimum_driver")
    return Desired(
        gpus=tuple(_read_gpu(reader, entry, f"gpus[{i}]") for i, entry in enumerate(gpus)),
        sharing=tuple(_read_all_sharing(reader, sharing)),
        pool=reader.text(top["pool"], "pool"),
        partitioner=reader.choice(top["partitioner"], "partitioner", get_args(Partitioner)),
        gpu_count=reader.integer(top["gpu_count"], "gpu_count"),
        gpu_models=tuple(reader.text(name, f"gpu_models[{i}]") for i, name in enumerate(models)),
        resources=reader.counts(top["resources"], "resources"),
        gpu_memory_mib=None if memory is None else reader.integer(memory, "gpu_memory_mib"),
        minimum_driver=None if driver is None else reader.text(driver, "minimum_driver"),
        labels=reader.texts(top.get("labels", {}), "labels"),
        shares=_read_shares(reader, top["shares"]) if "shares" in top else None,
    )


def _read_gpu(reader: Reader, raw: Any, path: str) -> DesiredGpu:
    entry = reader.mapping(raw, path, required=("index", "mig"), optional=("instances",))
    index = entry.get("index", 0)
    return DesiredGpu(
        index="all" if index == "all" else reader.integer(index, f"{path}.index"),
        mig=reader.truth(entry.get("mig", False), f"{path}.mig"),
        instances=reader.counts(entry.get("instances", {}), f"{path}.instances"),
    )


def _read_shares(reader: Reader, raw: Any) -> DesiredShares | None:
    numbers = ("slots", "memory_percent", "compute_percent", "memory_unit_mib")
    entry = reader.mapping(raw, "shares", required=("engine", *numbers))
    if reader.problems:
        return None
    return DesiredShares(
        engine=reader.choice(entry["engine"], "shares.engine", get_args(EngineName)),
        **{number: reader.integer(entry[number], f"shares.{number}") for number in numbers},
    )


def _read_all_sharing(reader: Reader, entries: list[Any]) -> Iterator[DesiredSharing]:
    keys = ("resource", "strategy", "replicas")
    for position, raw in enumerate(entries):
        path = f"sharing[{position}]"
        entry = reader.mapping(raw, path, required=keys)
        if len(entry) == len(keys):
            yield DesiredSharing(
                resource=reader.text(entry.get("resource"), f"{path}.resource"),
                strategy=reader.choice(
                    entry.get("strategy"), f"{path}.strategy", get_args(SharingStrategy)
                ),
                replicas=reader.integer(entry.get("replicas"), f"{path}.replicas"),
            )
