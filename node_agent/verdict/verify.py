"""Judges a node: desired state × observation × advertised resources -> verdict. Pure functions.

A verdict is Match, Mismatch or Unknown. Unknown is never a pass, and neither is a judgement without
a single check.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from node_agent.cluster.node import NodeState
from node_agent.desired import Desired, DesiredGpu
from node_agent.layout import GpuLayout, Layout, ranges
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
from node_agent.verdict.reasons import MATCH, RANK, REASONS, Outcome, Reason
from node_agent.xids.history import consequence
from node_agent.xids.meanings import shown as xid_shown
from telemetry.plain import plain

_MAX_MESSAGE = 700
_MAX_LAYOUT = 120
"""Characters of a layout in a message: sixteen UUIDs would leave no room for the cause."""
# Resources that stand for GPUs, unlike others of the vendor (nvidia.com/hostdev).
_GPU_RESOURCE = re.compile(r"nvidia\.com/(?:gpu|mig-.+)(?:\.shared)?")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One comparison."""

    reason: str
    """PartitionsMatch, or why not."""
    where: str
    """`GPU 3`, `node`, or the resource's name."""
    wanted: str
    found: str

    @property
    def verdict(self) -> Outcome:
        return REASONS[self.reason].verdict


@dataclass(frozen=True, kw_only=True)
class Verdict:
    verdict: Outcome
    reason: str
    message: str
    """One sentence: where, wanted, found, likely cause, next step. Equal findings give equal
    messages.
    """
    checks: tuple[Check, ...]
    instances: tuple[Mapping[str, int], ...] = ()
    """Per observed GPU: profile -> number of MIG devices, as from `found_instances`."""


def verify(
    desired: Desired,
    observation: Observation,
    node: NodeState | None,
    *,
    silicon_only: bool = False,
) -> Verdict:
    """Whether a node is as desired.

    node: None where the API server does not answer; its resources are then Unknown. silicon_only:
    check no resources and labels, for a host that is not a Kubernetes node.
    """
    found = tuple(found_instances(gpu, desired) for gpu in observation.gpus)
    checks = [*_check_silicon(desired, observation, found)]
    if not silicon_only and observation.failure is None:
        checks += _check_resources(desired, node)
        checks += _check_labels(desired, node)
    return _judged(desired, checks, found, on_host=silicon_only)


def verify_layout(
    layout: Layout, wanted: Mapping[int, GpuLayout], observation: Observation
) -> Verdict:
    """Whether the GPUs of a host are partitioned as a layout says; other GPUs are not checked.

    wanted: by NVML index, the last answer of `layout.of`.
    """
    gpus = [gpu for gpu in observation.gpus if gpu.index in wanted]
    desired = desired_of(wanted, observation)
    found = tuple(found_instances(gpu, desired) for gpu in gpus)
    if observation.failure:
        return _judged(
            desired, [_failed("host", _shortened(layout), observation.failure)], found, on_host=True
        )
    checks: list[Check] = []
    if not wanted:
        how_many = _number(len(observation.gpus), "GPU")
        checks.append(
            Check(
                reason="WrongGpuCount",
                where="host",
                wanted=_shortened(layout),
                found=f"{how_many}, none of them named",
            )
        )
    for index in sorted(wanted.keys() - {gpu.index for gpu in gpus}):
        checks.append(
            Check(
                reason="WrongGpuCount",
                where=f"GPU {index}",
                wanted=str(wanted[index]),
                found="no such GPU",
            )
        )
    for entry, gpu, instances in zip(desired.gpus, gpus, found, strict=True):
        checks += _check_gpu(desired, entry, gpu, instances)
        checks += _check_placements(wanted[gpu.index], gpu)
    return _judged(desired, checks, found, on_host=True)


def desired_of(wanted: Mapping[int, GpuLayout], observation: Observation) -> Desired:
    """A host's layout as the desired state of its named GPUs, whatever model they are."""
    gpus = [gpu for gpu in observation.gpus if gpu.index in wanted]
    return Desired(
        pool="host",
        partitioner="none",
        gpu_count=len(gpus),
        gpu_models=tuple(sorted({gpu.model or "no name" for gpu in gpus})),
        gpus=tuple(
            DesiredGpu(
                index=g.index, mig=wanted[g.index].mig, instances=_devices(wanted[g.index], g)
            )
            for g in gpus
        ),
        resources={},
    )


def _shortened(layout: Layout) -> str:
    text = str(layout)
    return text if len(text) <= _MAX_LAYOUT else f"{text[: _MAX_LAYOUT - 1]}…"


def _judged(
    desired: Desired,
    checks: Sequence[Check],
    found: tuple[Mapping[str, int], ...],
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
            instances=found,
        )
    first = REASONS[worst[0].reason]
    same_reason = [c for c in worst if c.reason == first.code]
    message = _problem_message(desired, first, same_reason, on_host=on_host)
    others = sorted({c.reason for c in worst} - {first.code}, key=lambda code: RANK[code])
    if others:
        message += f" Also: {', '.join(others)}."
    return Verdict(
        verdict=first.verdict,
        reason=first.code,
        message=_in_a_report(message),
        checks=tuple(checks),
        instances=found,
    )


def partitioning_in_progress(desired: Desired, node: NodeState | None) -> Verdict | None:
    """The verdict while mig-manager changes the GPUs and they must not be probed; else None.

    An NVML client makes a change of MIG mode fail with "In use by another client". Source: NVIDIA
    MIG User Guide, "Enable MIG Mode".
    """
    if (
        node is None
        or desired.partitioner != "mig-manager"
        or node.mig_state not in ("pending", "rebooting")
    ):
        return None
    found = f"nvidia.com/mig.config.state {node.mig_state}"
    check = Check(
        reason="PartitioningUnderWay",
        where="node",
        wanted=_number(desired.gpu_count, "GPU"),
        found=found,
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
    """The same findings, for another reason than `verify` gives them."""
    findings = [check for check in verdict.checks if check.reason == verdict.reason]
    reason = REASONS[code]
    return replace(
        verdict,
        verdict=reason.verdict,
        reason=code,
        message=_in_a_report(_problem_message(desired, reason, findings, on_host=False)),
        checks=tuple(
            replace(check, reason=code) if check in findings else check for check in verdict.checks
        ),
    )


def is_gpu_resource(name: str) -> bool:
    """Whether an extended resource stands for GPUs or their partitions."""
    return _GPU_RESOURCE.fullmatch(name) is not None


def found_instances(gpu: ObservedGpu, desired: Desired) -> Mapping[str, int]:
    """Profile -> number of MIG devices on a GPU; `unknown` where the profile is not clear."""
    names = (
        profiles.name_of(d, gpu, gpu_memory_mib=desired.gpu_memory_mib) or "unknown"
        for d in gpu.devices
    )
    return dict(sorted(Counter(names).items()))


def shown(instances: Mapping[str, int]) -> str:
    """`1g.5gb x2, 3g.20gb x1`"""
    return (
        ", ".join(f"{profile} x{count}" for profile, count in sorted(instances.items()))
        or "no partition"
    )


def _rank(reason: Reason) -> tuple[bool, bool, int]:
    return reason.verdict == "Unknown", reason.settles, RANK[reason.code]


def _check_silicon(
    desired: Desired, observation: Observation, found: Sequence[Mapping[str, int]]
) -> Iterator[Check]:
    if observation.failure:
        yield _failed("node", f"{desired.gpu_count} GPUs", observation.failure)
        return
    gpus = observation.gpus
    count_is_right = len(gpus) == desired.gpu_count
    yield Check(
        reason=MATCH if count_is_right else "WrongGpuCount",
        where="node",
        wanted=_number(desired.gpu_count, "GPU"),
        found=_number(len(gpus), "GPU"),
    )
    if desired.minimum_driver:
        yield Check(
            reason=MATCH
            if _version(observation.driver) >= _version(desired.minimum_driver)
            else "DriverTooOld",
            where="node",
            wanted=f"driver {desired.minimum_driver} or newer",
            found=f"driver {observation.driver or 'unknown'}",
        )
    for gpu, instances in zip(gpus, found, strict=True):
        if gpu.index < desired.gpu_count:
            yield from _check_gpu(desired, desired.gpu(gpu.index), gpu, instances)


def _check_gpu(
    desired: Desired, want: DesiredGpu, gpu: ObservedGpu, instances: Mapping[str, int]
) -> Iterator[Check]:
    where = f"GPU {gpu.index}"
    wanted = shown(want.instances) if want.instances else "MIG on" if want.mig else "no MIG"
    if gpu.failure:
        failed = _failed(where, wanted, gpu.failure)
        yield (
            replace(failed, found=f"{failed.found}, after {xid_shown(gpu.stands.number)}")
            if gpu.stands
            else failed
        )
        return
    if gpu.stands:
        reason = "GpuLost" if consequence(gpu.stands) == "lost" else "GpuResetRequired"
        yield Check(
            reason=reason,
            where=where,
            wanted="no error that needs a reset",
            found=xid_shown(gpu.stands.number),
        )
    yield from _check_repairs(where, gpu)
    models, model = {_model(name) for name in desired.gpu_models}, gpu.model or "no name"
    yield Check(
        reason=MATCH if _model(model) in models else "WrongGpuModel",
        where=where,
        wanted=" or ".join(sorted(desired.gpu_models)),
        found=model,
    )
    yield Check(
        reason=_layout(want, gpu, instances),
        where=where,
        wanted=wanted,
        found=_found(gpu, instances),
    )
    if gpu.gpu_instances is not None and want.mig:
        in_use = {device.gpu_instance for device in gpu.devices}
        empty = [i for i in gpu.gpu_instances if i.id not in in_use]
        yield Check(
            reason="ComputeInstanceMissing" if empty else MATCH,
            where=where,
            wanted="a compute instance in every GPU instance",
            found=f"none in GPU instance {', '.join(str(i.id) for i in empty)}" if empty else "all",
        )


def _check_repairs(where: str, gpu: ObservedGpu) -> Iterator[Check]:
    """A GPU that works, but for which the driver asks for a reset, a reboot or another GPU."""
    wanted = "no repair asked for"
    if REMAP_FAILED in gpu.repairs:
        yield Check(
            reason="RowRemapFailed",
            where=where,
            wanted=wanted,
            found="a bad memory row without a spare row",
        )
    if by_reset := [_asked(repair) for repair in gpu.repairs if repair != REMAP_FAILED]:
        yield Check(
            reason="GpuResetRequested", where=where, wanted=wanted, found=", ".join(by_reset)
        )


def _asked(repair: Repair) -> str:
    waiting = {
        REMAP_PENDING: "a row remapping that waits for a reset",
        RETIREMENT_PENDING: "a page retirement that waits for a reset",
    }
    if repair.startswith("action "):
        return f"the driver asks for recovery {repair}"
    return waiting.get(repair) or f"the driver asks to {repair}"


def _devices(wanted: GpuLayout, gpu: ObservedGpu) -> Mapping[str, int]:
    """MIG device profile -> count, with profile numbers replaced by the driver's names."""
    names = {str(p.id): profiles.name_of_profile(p, gpu.memory_mib) for p in gpu.offered}
    count: Counter[str] = Counter()
    for part in wanted.parts:
        name = names.get(part.profile) or part.profile
        whole = part.compute_slices is None or name.startswith(f"{part.compute_slices}g.")
        count[name if whole else f"{part.compute_slices}c.{name}"] += part.count
    return count


def _check_placements(wanted: GpuLayout, gpu: ObservedGpu) -> Iterator[Check]:
    """Compares placements, which only a privileged process can read."""
    offered = {p.id: profiles.name_of_profile(p, gpu.memory_mib) for p in gpu.offered}
    names = {str(p): name for p, name in offered.items()}
    for part in wanted.parts:
        if part.start is None or gpu.gpu_instances is None:
            continue
        name = names.get(part.profile) or part.profile
        starts = sorted(i.start for i in gpu.gpu_instances if offered.get(i.profile) == name)
        yield Check(
            reason=MATCH if part.start in starts else "WrongLayout",
            where=f"GPU {gpu.index}",
            wanted=f"{name} at {part.start}",
            found=f"at {', '.join(map(str, starts))}" if starts else "none",
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
    wanted = dict(want.instances)
    if wanted == dict(instances):
        return MATCH
    unclear = instances.get("unknown", 0)
    surplus = Counter(instances) - Counter(wanted)
    del surplus["unknown"]
    if surplus or sum(instances.values()) > sum(wanted.values()):
        return "WrongLayout"
    if unclear:
        return "ProfileUnclear"
    return "LayoutIncomplete" if instances else "NotPartitioned"


def _found(gpu: ObservedGpu, instances: Mapping[str, int]) -> str:
    if gpu.mig == "unsupported":
        return "a GPU without MIG"
    if gpu.mig == "unknown":
        return "no answer"
    state = {"enabled": "on", "disabled": "off"}
    if gpu.mig_pending != gpu.mig and gpu.mig_pending in state:
        return f"MIG {state[gpu.mig]} until the next reset, then {state[gpu.mig_pending]}"
    if gpu.mig == "disabled":
        return "no MIG"
    return shown(instances) if instances else "MIG on without any partition"


def _check_resources(desired: Desired, node: NodeState | None) -> Iterator[Check]:
    if node is None:
        if desired.resources:
            wanted = ", ".join(
                f"{name} {count}" for name, count in sorted(desired.resources.items())
            )
            yield Check(
                reason="NodeUnreadable",
                where="node",
                wanted=wanted,
                found="no answer from the API server",
            )
        return
    for name, wanted_count in sorted(desired.resources.items()):
        capacity, allocatable = node.capacity.get(name, 0), node.allocatable.get(name, 0)
        yield Check(
            reason=_resource(wanted_count, capacity, allocatable),
            where=name,
            wanted=str(wanted_count),
            found=str(capacity)
            if capacity == allocatable
            else f"{allocatable} allocatable of {capacity}",
        )
    for name, allocatable in sorted(node.allocatable.items()):
        # By allocatable alone: the kubelet keeps the capacity of a resource for five minutes after
        # its device plugin has gone, and no pod can get any of it. Resources of an earlier layout
        # stay in the node's status with 0, which is the same as absent.
        if name not in desired.resources and is_gpu_resource(name) and allocatable:
            yield Check(
                reason="UnexpectedResources", where=name, wanted="0", found=str(allocatable)
            )


def _check_labels(desired: Desired, node: NodeState | None) -> Iterator[Check]:
    """By these labels pods choose nodes. Written by another program, up to a minute later."""
    if node is None:
        return  # said already: NodeUnreadable
    for name, accepted in sorted(desired.labels.items()):
        found = node.feature_labels.get(name)
        right = found is not None and _product(found) in map(_product, accepted)
        yield Check(
            reason=MATCH if right else "WrongLabels",
            where=name,
            wanted=" or ".join(accepted),
            found="no label" if found is None else found or "an empty label",
        )


def _resource(wanted: int, capacity: int, allocatable: int) -> str:
    if capacity == allocatable == wanted:
        return MATCH
    if capacity == wanted:
        return "ResourcesWithheld"
    return "WrongResources" if capacity or allocatable else "ResourcesNotAdvertised"


def _failed(where: str, wanted: str, failure: Failure) -> Check:
    return Check(
        reason=REASON_OF.get(failure.code, "DriverError"),
        where=where,
        wanted=wanted,
        found=failure.text if failure.call == "probe" else f"{failure.call}: {failure.text}",
    )


def _in_a_report(message: str) -> str:
    message = plain(message)
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"


def _problem_message(
    desired: Desired, reason: Reason, checks: Sequence[Check], *, on_host: bool
) -> str:
    cause = reason.cause_for(desired.partitioner, on_host=on_host)
    advice = reason.advice_for(desired.partitioner, on_host=on_host)
    if reason.code == "WrongResources":
        cause = _sharing_cause(desired, checks) or cause
    return f"{'; '.join(_grouped(checks))}: {cause}; {advice}."


def _grouped(checks: Sequence[Check]) -> Iterator[str]:
    """GPUs with the same finding share a clause."""
    by_finding: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        by_finding.setdefault((check.wanted, check.found), []).append(check.where)
    for (wanted, found), where in by_finding.items():
        yield f"{_listed(where)} wanted {wanted}, found {found}"


def _listed(where: Sequence[str]) -> str:
    """`GPU 3`, `GPUs 0-2, 5`, `nvidia.com/gpu`"""
    if len(where) == 1 or not all(one.startswith("GPU ") for one in where):
        return ", ".join(where)
    return f"GPUs {ranges(int(one.removeprefix('GPU ')) for one in where)}"


def _sharing_cause(desired: Desired, checks: Sequence[Check]) -> str | None:
    """The cause where a shared resource has one replica per device; None where that is not it."""
    for sharing in desired.sharing:
        for check in checks:
            if check.where == sharing.resource and check.found == str(
                desired.resources[sharing.resource] // sharing.replicas
            ):
                return (
                    f"the device plugin does not share its devices ({sharing.strategy}, "
                    f"{sharing.replicas} replicas each)"
                )
    return None


def _match_message(desired: Desired, *, resources: bool) -> str:
    layouts = sorted({shown(g.instances) if g.mig else "whole" for g in desired.gpus})
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
    # As `_model`, in GPU feature discovery's spelling.
    return label.removeprefix("NVIDIA-")


def _model(name: str) -> str:
    # Drivers before R470 leave out the vendor.
    return name.removeprefix("NVIDIA ").strip()
