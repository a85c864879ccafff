"""Mappings of unknown type, because the tag (`cloud`, `mode`) is missing or wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slicewright.infra.stack_file.nearest import nearest_names
from slicewright.infra.stack_file.problem import Path, Problem
from slicewright.infra.stack_file.reading.annotations import SIMILAR, tag_for_keys, type_at
from slicewright.infra.stack_file.reading.diagnosis import (
    MISSING,
    Diagnosis,
    DropValue,
    Fix,
    ReplaceValue,
)
from slicewright.infra.stack_file.reading.formatting import comma_separated, format_value
from slicewright.infra.stack_file.reading.other_systems import answer_for
from slicewright.infra.stack_file.reading.source import Source
from slicewright.infra.stack_file.reading.synonyms import closest_word

MODES: Mapping[str, str] = {
    "partition": "native (GKE), operator (NVIDIA's mig-manager), boot (EKS), or none",
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
    "boot": "only EKS nodes with Amazon Linux partition their GPUs by user data when they boot",
    "bare": "it is for machines without Kubernetes, listed under hosts",
}
"""Partition mode of another kind of pool -> why this pool cannot have it."""


def diagnose_tag(
    loc: tuple[str | int, ...],
    path: Path,
    parent: Any,
    context: Mapping[str, Any],
    actual: Any,
    source: Source,
) -> Diagnosis:
    """Diagnoses pydantic's errors union_tag_invalid and union_tag_not_found."""
    tag_key = str(context["discriminator"]).strip("'")
    if not isinstance(actual, dict):
        problem, fix = _diagnose_non_mapping(path, tag_key, actual)
    elif "tag" not in context:
        problem, fix = _diagnose_missing_tag(path, tag_key, actual)
    else:
        allowed = [t.strip().strip("'") for t in str(context["expected_tags"]).split(",")]
        problem, fix = _diagnose_wrong_tag(path, tag_key, actual, allowed, source.value(path))
    if isinstance(fix, DropValue) and isinstance(actual, dict):
        # The other keys show which member is meant, and may have further problems.
        annotation = type_at(parent, path[-1]) if path else None
        tag = tag_for_keys(annotation, actual.keys() - {tag_key}, tag_key)
        if tag:
            fix = ReplaceValue(value={**actual, tag_key: tag}, unknown=((*path, tag_key),))
    return Diagnosis(problem=problem, loc=loc, fix=fix)


def _diagnose_non_mapping(path: Path, tag_key: str, actual: Any) -> tuple[Problem, Fix]:
    reason = f"{format_value(actual)} is not a mapping with the key {tag_key}"
    instead = f"write {tag_key}: {_allowed_tags(path)}"
    return Problem(code="wrong-type", path=path, reason=reason, instead=instead), DropValue()


def _diagnose_missing_tag(path: Path, tag_key: str, actual: dict[str, Any]) -> tuple[Problem, Fix]:
    misspelled = nearest_names(tag_key, tuple(map(str, actual)), count=1, similarity=SIMILAR)
    if misspelled:
        problem = Problem(
            code="unknown-key",
            path=(*path, misspelled[0]),
            reason="unknown key",
            instead=f"did you mean {tag_key}?",
            in_key=True,
        )
        value = {(tag_key if k == misspelled[0] else k): v for k, v in actual.items()}
        return problem, ReplaceValue(value=value)
    guess = _guess_cloud(path, actual)
    problem = Problem(
        code="missing-key",
        path=(*path, tag_key),
        reason=MISSING,
        instead=f"write {tag_key}: {guess or _allowed_tags(path)}",
    )
    return problem, ReplaceValue(value={**actual, tag_key: guess}) if guess else DropValue()


def _diagnose_wrong_tag(
    path: Path, tag_key: str, actual: dict[str, Any], allowed: Sequence[str], as_written: Any
) -> tuple[Problem, Fix]:
    tag = actual[tag_key]
    # `capacity: spot` has no key `mode` to point at.
    at = (*path, tag_key) if isinstance(as_written, dict) else path
    if path[-1:] == ("partition",) and isinstance(tag, str) and tag in _OTHER_PLACE:
        problem = Problem(
            code="unsupported-partition",
            path=at,
            reason=f"{tag} is not supported for this pool: {_OTHER_PLACE[tag]}",
            instead=f"write {' or '.join(reversed([mode for mode in allowed if mode != tag]))}",
        )
        return problem, DropValue()
    answer = answer_for(tag) if isinstance(tag, str) else ""
    closest = closest_word(tag, allowed) if isinstance(tag, str) and not answer else ""
    if answer and not path:
        # The other keys are read as those of an existing cluster, as the answer says.
        closest = "byo"
    guess = closest or _guess_cloud(path, actual)
    problem = Problem(
        code="not-an-allowed-value",
        path=at,
        reason=f"{format_value(tag)} is not one of {comma_separated(allowed)}",
        instead=answer
        or (f"did you mean {closest}?" if closest else f"write {guess or _allowed_tags(path)}"),
    )
    if not guess:
        return problem, DropValue()
    value = {**as_written, tag_key: guess} if isinstance(as_written, dict) else guess
    return problem, ReplaceValue(value=value)


def _allowed_tags(path: Path) -> str:
    """The allowed tags at a path. An item of a list has the tags of the list's key."""
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    return MODES.get(key, "") if path else _CLOUDS


def _guess_cloud(path: Path, fleet: Mapping[str, Any]) -> str:
    """The cloud that the other keys of a fleet belong to, empty if unclear or not a fleet."""
    if path:
        return ""
    cluster = fleet.get("cluster")
    keys: Sequence[str] = [*cluster] if isinstance(cluster, dict) else []
    for key, cloud in (("location", "gke"), ("region", "eks"), ("context", "byo")):
        if key in keys:
            return cloud
    return "byo" if "hosts" in fleet else ""
