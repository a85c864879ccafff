"""Judges a node: desired state × observation × advertised resources -> verdict. Pure functions.

A verdict is Match, Mismatch or Unknown. Unknown is never a pass, and neither is a judgement without
a single check.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from apis.desired_state import Desired, DesiredGpu
from apis.layout import GpuLayout, Layout, ranges
from apis.reasons.agent import MATCH, RANK, REASONS, Outcome, Reason
from node_agent.cluster.node import NodeState
from node_agent.nvml import profiles
from node_agent.nvml.errors import REASON_OF
from node_agent.nvml.observed import (
    REMAP_FAILED,
    REMAP_PENDING,
    RETIREMENT_PENDING,
    Failure,
    Observation,
    ObservedGpu,
    Repair,
)
from node_agent.xids.history import consequence
from node_agent.xids.meanings import describe as describe_xid
from telemetry.plain import plain

_MAX_MESSAGE = 700
_MAX_LAYOUT = 120
"""Characters of a layout in a message: sixteen UUIDs would leave no room for the cause."""
# GPU resources, unlike other resources of the vendor (nvidia.com/hostdev).
_GPU_RESOURCE = re.compile(r"nvidia\.com/(?:gpu|mig-.+)(?:\.shared)?")


@dataclass(frozen=True, kw_only=True)
class Check:
    """A single comparison."""

    reason: str
    """PartitionsMatch, or the reason for the difference."""
    where: str
    """`GPU 3`, `node`, or the resource's name."""
    expected: str
    observed: str

    @property
    def verdict(self) -> Outcome:
        return REASONS[self.reason].verdict


@dataclass(frozen=True, kw_only=True)
class Verdict:
    verdict: Outcome
    reason: str
    message: str
    """A sentence: place, expected, observed, likely cause, next step. Equal findings give equal
    messages.
    """
    checks: tuple[Check, ...]
    instances: tuple[Mapping[str, int], ...] = ()
    """Per observed GPU, the result of `observed_instances`: profile -> number of MIG devices."""


def verify(
    desired: Desired,
    observation: Observation,
    node: NodeState | None,
    *,
    silicon_only: bool = False,
) -> Verdict:
    """Returns the verdict on a node, compared with its desired state.

    node: None if the API server does not answer: its resources are then Unknown.
    silicon_only: check no resources and labels, for a host that is not a Kubernetes node.
    """
    observed = tuple(observed_instances(gpu, desired) for gpu in observation.gpus)
    checks = [*_check_silicon(desired, observation, observed)]
    if not silicon_only and observation.failure is None:
        checks += _check_resources(desired, node)
        checks += _check_labels(desired, node)
    return _judge(desired, checks, observed, on_host=silicon_only)


def verify_layout(
    layout: Layout, expected: Mapping[int, GpuLayout], observation: Observation
) -> Verdict:
    """Returns the verdict on the GPUs of a host, compared with a layout. Other GPUs are not
    checked.

    expected: NVML index -> layout, the last result of `layout.of`.
    """
    gpus = [gpu for gpu in observation.gpus if gpu.index in expected]
    desired = desired_of(expected, observation)
    observed = tuple(observed_instances(gpu, desired) for gpu in gpus)
    if observation.failure:
        return _judge(
            desired,
            [_failure_check("host", _shorten(layout), observation.failure)],
            observed,
            on_host=True,
        )
    checks: list[Check] = []
    if not expected:
        how_many = _number(len(observation.gpus), "GPU")
        checks.append(
            Check(
                reason="WrongGpuCount",
                where="host",
                expected=_shorten(layout),
                observed=f"{how_many}, none of them named",
            )
        )
    for index in sorted(expected.keys() - {gpu.index for gpu in gpus}):
        checks.append(
            Check(
                reason="WrongGpuCount",
                where=f"GPU {index}",
                expected=str(expected[index]),
                observed="no such GPU",
            )
        )
    for entry, gpu, instances in zip(desired.gpus, gpus, observed, strict=True):
        checks += _check_gpu(desired, entry, gpu, instances)
        checks += _check_placements(expected[gpu.index], gpu)
    return _judge(desired, checks, observed, on_host=True)


def desired_of(expected: Mapping[int, GpuLayout], observation: Observation) -> Desired:
    """A host's layout as the desired state of its named GPUs of any model."""
    gpus = [gpu for gpu in observation.gpus if gpu.index in expected]
    return Desired(
        pool="host",
        partitioner="none",
        gpu_count=len(gpus),
        gpu_models=tuple(sorted({gpu.model or "no name" for gpu in gpus})),
        gpus=tuple(
            DesiredGpu(
                index=g.index, mig=expected[g.index].mig, instances=_devices(expected[g.index], g)
            )
            for g in gpus
        ),
        resources={},
    )


def _shorten(layout: Layout) -> str:
    text = str(layout)
    return text if len(text) <= _MAX_LAYOUT else f"{text[: _MAX_LAYOUT - 1]}…"


def _judge(
    desired: Desired,
    checks: Sequence[Check],
    observed: tuple[Mapping[str, int], ...],
    *,
    on_host: bool,
) -> Verdict:
    assert checks, "a verdict needs at least one check"
    worst = sorted((c for c in checks if c.reason != MATCH), key=lambda c: _rank(REASONS[c.reason]))
    if not worst:
        return Verdict(
            verdict="Match",
            reason=MATCH,
            message=_match_message(desired, resources=not on_host),
            checks=tuple(checks),
            instances=observed,
        )
    first = REASONS[worst[0].reason]
    same_reason = [c for c in worst if c.reason == first.code]
    message = _problem_message(desired, first, same_reason, on_host=on_host)
    other_reasons = sorted({c.reason for c in worst} - {first.code}, key=lambda code: RANK[code])
    if other_reasons:
        message += f" Also: {', '.join(other_reasons)}."
    return Verdict(
        verdict=first.verdict,
        reason=first.code,
        message=_fit_into_report(message),
        checks=tuple(checks),
        instances=observed,
    )


def partitioning_in_progress(desired: Desired, node: NodeState | None) -> Verdict | None:
    """The verdict while mig-manager changes the GPUs and they must not be probed, else None.

    An NVML client makes a change of MIG mode fail with "In use by another client". Source: NVIDIA
    MIG User Guide, "Enable MIG Mode".
    """
    if (
        node is None
        or desired.partitioner != "mig-manager"
        or node.mig_state not in ("pending", "rebooting")
    ):
        return None
    observed = f"nvidia.com/mig.config.state {node.mig_state}"
    check = Check(
        reason="PartitioningUnderWay",
        where="node",
        expected=_number(desired.gpu_count, "GPU"),
        observed=observed,
    )
    reason = REASONS[check.reason]
    return Verdict(
        verdict=reason.verdict,
        reason=reason.code,
        message=_problem_message(desired, reason, [check], on_host=False),
        checks=(check,),
        instances=(),
    )


def with_reason(verdict: Verdict, code: str, desired: Desired) -> Verdict:
    """The verdict with the same findings but another reason."""
    findings = [check for check in verdict.checks if check.reason == verdict.reason]
    reason = REASONS[code]
    return replace(
        verdict,
        verdict=reason.verdict,
        reason=code,
        message=_fit_into_report(_problem_message(desired, reason, findings, on_host=False)),
        checks=tuple(
            replace(check, reason=code) if check in findings else check for check in verdict.checks
        ),
    )


def is_gpu_resource(name: str) -> bool:
    """True if an extended resource stands for GPUs or their partitions."""
    return _GPU_RESOURCE.fullmatch(name) is not None


def observed_instances(gpu: ObservedGpu, desired: Desired) -> Mapping[str, int]:
    """Profile -> number of MIG devices on a GPU. Unclear profiles count as `unknown`."""
    names = (
        profiles.name_of(d, gpu, gpu_memory_mib=desired.gpu_memory_mib) or "unknown"
        for d in gpu.devices
    )
    return dict(sorted(Counter(names).items()))


def describe_instances(instances: Mapping[str, int]) -> str:
    """Describes instances: `1g.5gb x2, 3g.20gb x1`."""
    return (
        ", ".join(f"{profile} x{count}" for profile, count in sorted(instances.items()))
        or "no partition"
    )


def _rank(reason: Reason) -> tuple[bool, bool, int]:
    return reason.verdict == "Unknown", reason.settles, RANK[reason.code]


def _check_silicon(
    desired: Desired, observation: Observation, observed: Sequence[Mapping[str, int]]
) -> Iterator[Check]:
    if observation.failure:
        yield _failure_check("node", f"{desired.gpu_count} GPUs", observation.failure)
        return
    gpus = observation.gpus
    count_is_right = len(gpus) == desired.gpu_count
    yield Check(
        reason=MATCH if count_is_right else "WrongGpuCount",
        where="node",
        expected=_number(desired.gpu_count, "GPU"),
        observed=_number(len(gpus), "GPU"),
    )
    if desired.minimum_driver:
        yield Check(
            reason=MATCH
            if _version(observation.driver) >= _version(desired.minimum_driver)
            else "DriverTooOld",
            where="node",
            expected=f"driver {desired.minimum_driver} or newer",
            observed=f"driver {observation.driver or 'unknown'}",
        )
    for gpu, instances in zip(gpus, observed, strict=True):
        if gpu.index < desired.gpu_count:
            yield from _check_gpu(desired, desired.gpu(gpu.index), gpu, instances)


def _check_gpu(
    desired: Desired, want: DesiredGpu, gpu: ObservedGpu, instances: Mapping[str, int]
) -> Iterator[Check]:
    where = f"GPU {gpu.index}"
    expected = (
        describe_instances(want.instances) if want.instances else "MIG on" if want.mig else "no MIG"
    )
    if gpu.failure:
        failed = _failure_check(where, expected, gpu.failure)
        yield (
            replace(failed, observed=f"{failed.observed}, after {describe_xid(gpu.stands.number)}")
            if gpu.stands
            else failed
        )
        return
    if gpu.stands:
        reason = "GpuLost" if consequence(gpu.stands) == "lost" else "GpuResetRequired"
        yield Check(
            reason=reason,
            where=where,
            expected="no error that needs a reset",
            observed=describe_xid(gpu.stands.number),
        )
    yield from _check_repairs(where, gpu)
    models, model = {_model(name) for name in desired.gpu_models}, gpu.model or "no name"
    yield Check(
        reason=MATCH if _model(model) in models else "WrongGpuModel",
        where=where,
        expected=" or ".join(sorted(desired.gpu_models)),
        observed=model,
    )
    yield Check(
        reason=_layout(want, gpu, instances),
        where=where,
        expected=expected,
        observed=_describe_gpu(gpu, instances),
    )
    if gpu.gpu_instances is not None and want.mig:
        in_use = {device.gpu_instance for device in gpu.devices}
        empty = [i for i in gpu.gpu_instances if i.id not in in_use]
        yield Check(
            reason="ComputeInstanceMissing" if empty else MATCH,
            where=where,
            expected="a compute instance in every GPU instance",
            observed=f"none in GPU instance {', '.join(str(i.id) for i in empty)}"
            if empty
            else "all",
        )


def _check_repairs(where: str, gpu: ObservedGpu) -> Iterator[Check]:
    """Checks repairs: a GPU works, but the driver requests a reset, a reboot or a new GPU."""
    expected = "no repair requested"
    if REMAP_FAILED in gpu.repairs:
        yield Check(
            reason="RowRemapFailed",
            where=where,
            expected=expected,
            observed="a bad memory row without a spare row",
        )
    if by_reset := [_describe_repair(repair) for repair in gpu.repairs if repair != REMAP_FAILED]:
        yield Check(
            reason="GpuResetRequested", where=where, expected=expected, observed=", ".join(by_reset)
        )


def _describe_repair(repair: Repair) -> str:
    waiting = {
        REMAP_PENDING: "a row remapping that waits for a reset",
        RETIREMENT_PENDING: "a page retirement that waits for a reset",
    }
    if repair.startswith("action "):
        return f"the driver asks for recovery {repair}"
    return waiting.get(repair) or f"the driver asks to {repair}"


def _devices(expected: GpuLayout, gpu: ObservedGpu) -> Mapping[str, int]:
    """MIG device profile -> count, with profile numbers replaced by the driver's names."""
    names = {str(p.id): profiles.name_of_profile(p, gpu.memory_mib) for p in gpu.offered}
    count: Counter[str] = Counter()
    for part in expected.parts:
        name = names.get(part.profile) or part.profile
        whole = part.compute_slices is None or name.startswith(f"{part.compute_slices}g.")
        count[name if whole else f"{part.compute_slices}c.{name}"] += part.count
    return count


def _check_placements(expected: GpuLayout, gpu: ObservedGpu) -> Iterator[Check]:
    """Checks placements, which only a privileged process can read."""
    offered = {p.id: profiles.name_of_profile(p, gpu.memory_mib) for p in gpu.offered}
    names = {str(p): name for p, name in offered.items()}
    for part in expected.parts:
        if part.start is None or gpu.gpu_instances is None:
            continue
        name = names.get(part.profile) or part.profile
        starts = sorted(i.start for i in gpu.gpu_instances if offered.get(i.profile) == name)
        yield Check(
            reason=MATCH if part.start in starts else "WrongLayout",
            where=f"GPU {gpu.index}",
            expected=f"{name} at {part.start}",
            observed=f"at {', '.join(map(str, starts))}" if starts else "none",
        )


def _layout(want: DesiredGpu, gpu: ObservedGpu, instances: Mapping[str, int]) -> str:
    if not want.mig:
        if gpu.mig == "enabled":
            return "UnwantedMig"
        return MATCH if gpu.mig_pending in (gpu.mig, "unknown") else "MigModePending"
    if gpu.mig == "unsupported":
        return "MigUnsupported"
    if gpu.mig == "unknown":
        return "DriverError"
    if gpu.mig_pending != gpu.mig:
        return "MigModePending"
    if gpu.mig == "disabled":
        return "NotPartitioned"
    expected = dict(want.instances)
    if expected == dict(instances):
        return MATCH
    unclear = instances.get("unknown", 0)
    surplus = Counter(instances) - Counter(expected)
    del surplus["unknown"]
    if surplus or sum(instances.values()) > sum(expected.values()):
        return "WrongLayout"
    if unclear:
        return "ProfileUnclear"
    return "LayoutIncomplete" if instances else "NotPartitioned"


def _describe_gpu(gpu: ObservedGpu, instances: Mapping[str, int]) -> str:
    if gpu.mig == "unsupported":
        return "a GPU without MIG"
    if gpu.mig == "unknown":
        return "no answer"
    state = {"enabled": "on", "disabled": "off"}
    if gpu.mig_pending != gpu.mig and gpu.mig_pending in state:
        return f"MIG {state[gpu.mig]} until the next reset, then {state[gpu.mig_pending]}"
    if gpu.mig == "disabled":
        return "no MIG"
    return describe_instances(instances) if instances else "MIG on without any partition"


def _check_resources(desired: Desired, node: NodeState | None) -> Iterator[Check]:
    if node is None:
        if desired.resources:
            expected = ", ".join(
                f"{name} {count}" for name, count in sorted(desired.resources.items())
            )
            yield Check(
                reason="NodeUnreadable",
                where="node",
                expected=expected,
                observed="no answer from the API server",
            )
        return
    for name, wanted_count in sorted(desired.resources.items()):
        capacity, allocatable = node.capacity.get(name, 0), node.allocatable.get(name, 0)
        yield Check(
            reason=_resource(wanted_count, capacity, allocatable),
            where=name,
            expected=str(wanted_count),
            observed=str(capacity)
            if capacity == allocatable
            else f"{allocatable} allocatable of {capacity}",
        )
    for name, allocatable in sorted(node.allocatable.items()):
        # Only allocatable counts: the kubelet keeps the capacity of a resource for five minutes
        # after its device plugin has gone, but no pod can get any. Resources of an earlier layout
        # stay in the node's status with 0, which means absent.
        if name not in desired.resources and is_gpu_resource(name) and allocatable:
            yield Check(
                reason="UnexpectedResources", where=name, expected="0", observed=str(allocatable)
            )


def _check_labels(desired: Desired, node: NodeState | None) -> Iterator[Check]:
    """Checks the labels that pods select nodes by. They may be written up to a minute later."""
    if node is None:
        return  # reported already: NodeUnreadable
    for name, accepted in sorted(desired.labels.items()):
        observed = node.feature_labels.get(name)
        right = observed is not None and _product(observed) in map(_product, accepted)
        yield Check(
            reason=MATCH if right else "WrongLabels",
            where=name,
            expected=" or ".join(accepted),
            observed="no label" if observed is None else observed or "an empty label",
        )


def _resource(expected: int, capacity: int, allocatable: int) -> str:
    if capacity == allocatable == expected:
        return MATCH
    if capacity == expected:
        return "ResourcesWithheld"
    return "WrongResources" if capacity or allocatable else "ResourcesNotAdvertised"


def _failure_check(where: str, expected: str, failure: Failure) -> Check:
    return Check(
        reason=REASON_OF.get(failure.code, "DriverError"),
        where=where,
        expected=expected,
        observed=failure.text if failure.call == "probe" else f"{failure.call}: {failure.text}",
    )


def _fit_into_report(message: str) -> str:
    message = plain(message)
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"


def _problem_message(
    desired: Desired, reason: Reason, checks: Sequence[Check], *, on_host: bool
) -> str:
    cause = reason.cause_for(desired.partitioner, on_host=on_host)
    advice = reason.advice_for(desired.partitioner, on_host=on_host)
    if reason.code == "WrongResources":
        cause = _sharing_cause(desired, checks) or cause
    return f"{'; '.join(_clauses(checks))}: {cause}; {advice}."


def _clauses(checks: Sequence[Check]) -> Iterator[str]:
    """A clause for each finding, shared by all GPUs with that finding."""
    by_finding: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        by_finding.setdefault((check.expected, check.observed), []).append(check.where)
    for (expected, observed), where in by_finding.items():
        yield f"{_join_places(where)} wanted {expected}, found {observed}"


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


def _match_message(desired: Desired, *, resources: bool) -> str:
    layouts = sorted({describe_instances(g.instances) if g.mig else "whole" for g in desired.gpus})
    gpus = f"{_number(desired.gpu_count, 'GPU')} as wanted ({'; '.join(layouts)})"
    if not resources or not desired.resources:
        return f"{gpus}."
    advertised = ", ".join(f"{name} {count}" for name, count in sorted(desired.resources.items()))
    return f"{gpus}; advertised: {advertised}."


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text or ""))


def _product(label: str) -> str:
    # Like `_model`, in GPU feature discovery's spelling.
    return label.removeprefix("NVIDIA-")


def _model(name: str) -> str:
    # Drivers before R470 omit the vendor.
    return name.removeprefix("NVIDIA ").strip()
