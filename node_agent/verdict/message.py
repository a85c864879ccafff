"""The sentence of a verdict. Equal findings give equal sentences. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slicewright.apis.desired_state import Desired
from slicewright.apis.layout import ranges
from slicewright.apis.reasons.agent_reason import Reason
from slicewright.node_agent.verdict.findings import Check, quantity
from slicewright.node_agent.verdict.instances import describe_instances
from slicewright.telemetry.plain import plain

_MAX_MESSAGE = 700


def fit_into_report(message: str) -> str:
    message = plain(message)
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"


def problem_message(
    desired: Desired, reason: Reason, checks: Sequence[Check], *, on_host: bool
) -> str:
    cause = reason.cause_for(desired.partitioner, on_host=on_host)
    advice = reason.advice_for(desired.partitioner, on_host=on_host)
    if reason.code == "WrongResources":
        cause = _sharing_cause(desired, checks) or cause
    return f"{'; '.join(_clauses(checks))}: {cause}; {advice}."


def match_message(desired: Desired, *, resources: bool) -> str:
    layouts = sorted({describe_instances(g.instances) if g.mig else "whole" for g in desired.gpus})
    gpus = f"{quantity(desired.gpu_count, 'GPU')} as wanted ({'; '.join(layouts)})"
    if not resources or not desired.resources:
        return f"{gpus}."
    advertised = ", ".join(f"{name} {count}" for name, count in sorted(desired.resources.items()))
    return f"{gpus}; advertised: {advertised}."


def _clauses(checks: Sequence[Check]) -> Iterator[str]:
    """A clause for each finding, shared by all GPUs with that finding. A GPU is named once, however
    many of its partitions have it.
    """
    by_finding: dict[tuple[str, str], dict[str, None]] = {}
    for check in checks:
        by_finding.setdefault((check.expected, check.observed), {})[check.where] = None
    for (expected, observed), where in by_finding.items():
        yield f"{_join_places(tuple(where))} wanted {expected}, found {observed}"


def _join_places(where: Sequence[str]) -> str:
    """Joins places: `GPU 3`, `GPUs 0-2, 5`, `nvidia.com/gpu`."""
    if len(where) == 1 or not all(place.startswith("GPU ") for place in where):
        return ", ".join(where)
    return f"GPUs {ranges(int(place.removeprefix('GPU ')) for place in where)}"


def _sharing_cause(desired: Desired, checks: Sequence[Check]) -> str | None:
    """The cause if a shared resource has one replica per device, else None."""
    for sharing in desired.sharing:
        for check in checks:
            if check.where == sharing.resource and check.observed == str(
                desired.resources[sharing.resource] // sharing.replicas
            ):
                return (
                    f"the device plugin does not share its devices ({sharing.strategy}, "
                    f"{sharing.replicas} replicas each)"
                )
    return None
