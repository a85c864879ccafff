"""Compares one GPU with its desired state. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.apis.layout import GpuLayout
from slicewright.apis.reasons.agent import MATCH
from slicewright.node_agent.nvml import profiles
from slicewright.node_agent.nvml.observed import (
    REMAP_FAILED,
    REMAP_PENDING,
    RETIREMENT_PENDING,
    Failure,
    GpuInstance,
    ObservedGpu,
    Repair,
)
from slicewright.node_agent.verdict.findings import Check, failure_check
from slicewright.node_agent.verdict.instances import describe_instances
from slicewright.node_agent.xids.history import consequence
from slicewright.node_agent.xids.meanings import describe as describe_xid


def check_gpu(
    desired: Desired, desired_gpu: DesiredGpu, gpu: ObservedGpu, instances: Mapping[str, int]
) -> Iterator[Check]:
    where = f"GPU {gpu.index}"
    expected = _describe_desired(desired_gpu)
    if gpu.failure:
        yield _check_failed(where, expected, gpu, gpu.failure)
        return
    if gpu.stands:
        yield Check(
            reason="GpuLost" if consequence(gpu.stands) == "lost" else "GpuResetRequired",
            where=where,
            expected="no error that needs a reset",
            observed=describe_xid(gpu.stands.number),
        )
    yield from _check_repairs(where, gpu)
    yield _check_model(where, desired, gpu)
    yield Check(
        reason=_layout_reason(desired_gpu, gpu, instances),
        where=where,
        expected=expected,
        observed=_describe_gpu(gpu, instances),
    )
    if gpu.gpu_instances is not None and desired_gpu.mig:
        yield _check_compute_instances(where, gpu, gpu.gpu_instances)


def _describe_desired(desired_gpu: DesiredGpu) -> str:
    if desired_gpu.instances:
        return describe_instances(desired_gpu.instances)
    return "MIG on" if desired_gpu.mig else "no MIG"


def _check_failed(where: str, expected: str, gpu: ObservedGpu, failure: Failure) -> Check:
    check = failure_check(where, expected, failure)
    if gpu.stands is None:
        return check
    return replace(check, observed=f"{check.observed}, after {describe_xid(gpu.stands.number)}")


def _check_model(where: str, desired: Desired, gpu: ObservedGpu) -> Check:
    models, model = {_model(name) for name in desired.gpu_models}, gpu.model or "no name"
    return Check(
        reason=MATCH if _model(model) in models else "WrongGpuModel",
        where=where,
        expected=" or ".join(sorted(desired.gpu_models)),
        observed=model,
    )


def _check_compute_instances(
    where: str, gpu: ObservedGpu, gpu_instances: Sequence[GpuInstance]
) -> Check:
    in_use = {device.gpu_instance for device in gpu.devices}
    empty = [str(instance.id) for instance in gpu_instances if instance.id not in in_use]
    return Check(
        reason="ComputeInstanceMissing" if empty else MATCH,
        where=where,
        expected="a compute instance in every GPU instance",
        observed=f"none in GPU instance {', '.join(empty)}" if empty else "all",
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


def check_placements(expected: GpuLayout, gpu: ObservedGpu) -> Iterator[Check]:
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


def _layout_reason(desired_gpu: DesiredGpu, gpu: ObservedGpu, instances: Mapping[str, int]) -> str:
    if not desired_gpu.mig:
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
    expected = dict(desired_gpu.instances)
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


def _model(name: str) -> str:
    # Drivers before R470 omit the vendor.
    return name.removeprefix("NVIDIA ").strip()
