"""A mapping whose tag (`cloud`, `mode`) is missing or wrong, so that its type is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.spec.nearest import nearest_names
from infra.spec.problem import Path, Problem
from infra.spec.reading.annotations import SIMILAR, tag_for_keys, type_at
from infra.spec.reading.diagnosis import MISSING, Diagnosis, DropValue, Fix, ReplaceValue
from infra.spec.reading.formatting import comma_separated, format_value
from infra.spec.reading.source import Source
from infra.spec.reading.synonyms import closest_word

MODES: Mapping[str, str] = {
    "partition": "native (GKE), operator (NVIDIA's mig-manager), or none",
    "sharing": "time-slicing, mps, fractional, or none",
    "capacity": "on-demand, spot, flex-start, queued, reservation, or capacity-block",
    "in_use": "refuse or wait",
    "autoscaler": "cluster-autoscaler or karpenter",
    "network": "public, private, or existing",
    "upgrade": "surge or blue-green",
    "workloads": "vllm, triton, or container",
    "monitoring": "stack, existing, or managed (GKE)",
}
"""Key of a union -> its modes, for remedies."""
_CLOUDS = "gke, eks, or byo (an existing cluster or hosts)"
_OTHER_PLACE: Mapping[str, str] = {
    "native": "only GKE, and Bottlerocket on EKS, partition GPUs themselves",
    "bare": "it is for machines without Kubernetes, which are listed under hosts",
}
"""Partition mode of another kind of pool -> why it is not allowed here."""


def diagnose_tag(
    loc: tuple[str | int, ...],
    path: Path,
    parent: Any,
    context: Mapping[str, Any],
    found: Any,
    source: Source,
) -> Diagnosis:
    """context: of pydantic's errors union_tag_invalid and union_tag_not_found."""
    tag_key = str(context["discriminator"]).strip("'")
    if not isinstance(found, dict):
        problem, fix = _no_mapping(path, tag_key, found)
    elif "tag" not in context:
        problem, fix = _missing(path, tag_key, found)
    else:
        allowed = [t.strip().strip("'") for t in str(context["expected_tags"]).split(",")]
        problem, fix = _wrong(path, tag_key, found, allowed, source.value(path))
    if isinstance(fix, DropValue) and isinstance(found, dict):
        # The other keys show which member is meant, and may have problems of their own.
        annotation = type_at(parent, path[-1]) if path else None
        tag = tag_for_keys(annotation, found.keys() - {tag_key}, tag_key)
        if tag:
            fix = ReplaceValue(value={**found, tag_key: tag}, unknown=((*path, tag_key),))
    return Diagnosis(problem=problem, loc=loc, fix=fix)


def _no_mapping(path: Path, tag_key: str, found: Any) -> tuple[Problem, Fix]:
    reason = f"{format_value(found)} is not a mapping with the key {tag_key}"
    instead = f"write {tag_key}: {_tags(path)}"
    return Problem(path=path, reason=reason, instead=instead), DropValue()


def _missing(path: Path, tag_key: str, found: dict[str, Any]) -> tuple[Problem, Fix]:
    misspelled = nearest_names(tag_key, tuple(map(str, found)), count=1, similarity=SIMILAR)
    if misspelled:
        problem = Problem(
            path=(*path, misspelled[0]),
            reason="unknown key",
            instead=f"did you mean {tag_key}?",
            in_key=True,
        )
        value = {(tag_key if k == misspelled[0] else k): v for k, v in found.items()}
        return problem, ReplaceValue(value=value)
    guess = _guess_cloud(path, found)
    problem = Problem(
        path=(*path, tag_key), reason=MISSING, instead=f"write {tag_key}: {guess or _tags(path)}"
    )
    return problem, ReplaceValue(value={**found, tag_key: guess}) if guess else DropValue()


def _wrong(
    path: Path, tag_key: str, found: dict[str, Any], allowed: Sequence[str], as_written: Any
) -> tuple[Problem, Fix]:
    tag = found[tag_key]
    # `capacity: spot` has no key `mode` to point at.
    at = (*path, tag_key) if isinstance(as_written, dict) else path
    if path[-1:] == ("partition",) and isinstance(tag, str) and tag in _OTHER_PLACE:
        problem = Problem(
            path=at,
            reason=f"{tag} is not supported for this pool: {_OTHER_PLACE[tag]}",
            instead=f"write {' or '.join(reversed([mode for mode in allowed if mode != tag]))}",
        )
        return problem, DropValue()
    closest = closest_word(tag, allowed) if isinstance(tag, str) else ""
    guess = closest or _guess_cloud(path, found)
    problem = Problem(
        path=at,
        reason=f"{format_value(tag)} is not one of {comma_separated(allowed)}",
        instead=f"did you mean {closest}?" if closest else f"write {guess or _tags(path)}",
    )
    if not guess:
        return problem, DropValue()
    value = {**as_written, tag_key: guess} if isinstance(as_written, dict) else guess
    return problem, ReplaceValue(value=value)


def _tags(path: Path) -> str:
    """Of an item of a list: by the list's key."""
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    return MODES.get(key, "") if path else _CLOUDS


def _guess_cloud(path: Path, fleet: Mapping[str, Any]) -> str:
    """The cloud that the other keys of a fleet belong to; empty if unclear, or not a fleet."""
    if path:
        return ""
    cluster = fleet.get("cluster")
    keys: Sequence[str] = [*cluster] if isinstance(cluster, dict) else []
    for key, cloud in (("location", "gke"), ("region", "eks"), ("context", "byo")):
        if key in keys:
            return cloud
    return "byo" if "hosts" in fleet else ""
