"""Canonical JSON of a desired state, and its hash."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from slicewright.apis.desired_state.contradictions import check
from slicewright.apis.desired_state.model import VERSION, Desired, DesiredError
from slicewright.apis.desired_state.problems import describe_problems

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def dump(desired: Desired) -> str:
    """Returns canonical JSON: equal states give equal bytes, regardless of how they were built.

    Raises DesiredError if `desired` contradicts itself.
    """
    problems = check(desired)
    if problems:
        raise DesiredError(describe_problems(f"desired state of pool {desired.pool!r}", problems))
    return _CANONICAL.encode(_raw(desired))


def hash_of(desired: Desired) -> str:
    """Returns the SHA-256 of the canonical JSON, as 64 hexadecimal digits.

    It is in `GPUPool.spec.layoutHash` and in every node's report.
    """
    return digest(dump(desired))


def digest(canonical: str) -> str:
    """Returns `hash_of` for the text that `dump` returned."""
    return hashlib.sha256(canonical.encode()).hexdigest()


def _raw(desired: Desired) -> dict[str, Any]:
    by_index = sorted(desired.gpus, key=lambda entry: (isinstance(entry.index, str), entry.index))
    raw: dict[str, Any] = {
        "version": VERSION,
        "pool": desired.pool,
        "partitioner": desired.partitioner,
        "gpu_count": desired.gpu_count,
        "gpu_models": sorted(set(desired.gpu_models)),
        "gpus": [
            {"index": g.index, "mig": g.mig, "instances": dict(g.instances)} for g in by_index
        ],
        "resources": dict(desired.resources),
    }
    if desired.gpu_memory_mib is not None:
        raw["gpu_memory_mib"] = desired.gpu_memory_mib
    if desired.minimum_driver is not None:
        raw["minimum_driver"] = desired.minimum_driver
    if desired.sharing:
        by_resource = sorted(desired.sharing, key=lambda s: s.resource)
        raw["sharing"] = [
            {"resource": s.resource, "strategy": s.strategy, "replicas": s.replicas}
            for s in by_resource
        ]
    if desired.labels:
        raw["labels"] = {name: sorted(accepted) for name, accepted in desired.labels.items()}
    if desired.shares is not None:
        raw["shares"] = dataclasses.asdict(desired.shares)
    return raw
