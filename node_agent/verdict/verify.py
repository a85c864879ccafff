"""Judges a node: desired state × observation × advertised resources -> verdict. Pure functions.

A verdict is Match, Mismatch or Unknown. Unknown is never a pass, and neither is a judgement without
a single check.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.apis.layout import GpuLayout, Layout
from slicewright.apis.reasons.agent import MATCH, REASONS
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.verdict.findings import Check, Verdict, failure_check, quantity
from slicewright.node_agent.verdict.gpu_checks import check_gpu, check_placements
from slicewright.node_agent.verdict.instances import expected_devices, observed_instances
from slicewright.node_agent.verdict.judge import judge
from slicewright.node_agent.verdict.message import problem_message
from slicewright.node_agent.verdict.node_checks import check_labels, check_resources
from slicewright.node_agent.verdict.share_checks import check_shares
from slicewright.node_agent.verdict.usability_checks import check_compute_mode, check_fabric

_MAX_LAYOUT = 120
"""Characters of a layout in a message: sixteen UUIDs would leave no room for the cause."""


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
        checks += check_resources(desired, node)
        checks += check_labels(desired, node)
        checks += check_shares(desired, observation.gpus, node)
    return judge(desired, checks, observed, on_host=silicon_only)


def verify_layout(
    layout: Layout, expected: Mapping[int, GpuLayout], observation: Observation
) -> Verdict:
    """Returns the verdict on the GPUs of a host, compared with a layout. Other GPUs are not
    checked.

    expected: NVML index -> layout, the last result of `layout.resolve`.
    """
    gpus = [gpu for gpu in observation.gpus if gpu.index in expected]
    desired = desired_of(expected, observation)
    observed = tuple(observed_instances(gpu, desired) for gpu in gpus)
    if observation.failure:
        checks = [failure_check("host", _shorten(layout), observation.failure)]
        return judge(desired, checks, observed, on_host=True)
    checks = [*_check_missing_gpus(layout, expected, observation)]
    for entry, gpu, instances in zip(desired.gpus, gpus, observed, strict=True):
        checks += check_gpu(desired, entry, gpu, instances)
        checks += check_placements(expected[gpu.index], gpu)
        # A layout does not state the compute mode: the host's owner may want another one.
        checks += check_fabric(replace(desired, gpu_count=len(observation.gpus)), entry, gpu)
    return judge(desired, checks, observed, on_host=True)


def _check_missing_gpus(
    layout: Layout, expected: Mapping[int, GpuLayout], observation: Observation
) -> Iterator[Check]:
    if not expected:
        how_many = quantity(len(observation.gpus), "GPU")
        yield Check(
            reason="WrongGpuCount",
            where="host",
            expected=_shorten(layout),
            observed=f"{how_many}, none of them named",
        )
    for index in sorted(expected.keys() - observation.uuids.keys()):
        yield Check(
            reason="WrongGpuCount",
            where=f"GPU {index}",
            expected=str(expected[index]),
            observed="no such GPU",
        )


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
                index=g.index,
                mig=expected[g.index].mig,
                instances=expected_devices(expected[g.index], g),
            )
            for g in gpus
        ),
        resources={},
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
        expected=quantity(desired.gpu_count, "GPU"),
        observed=observed,
    )
    reason = REASONS[check.reason]
    return Verdict(
        verdict=reason.verdict,
        reason=reason.code,
        message=problem_message(desired, reason, [check], on_host=False),
        checks=(check,),
        instances=(),
    )


def _check_silicon(
    desired: Desired, observation: Observation, observed: Sequence[Mapping[str, int]]
) -> Iterator[Check]:
    if observation.failure:
        yield failure_check("node", f"{desired.gpu_count} GPUs", observation.failure)
        return
    gpus = observation.gpus
    count_is_right = len(gpus) == desired.gpu_count
    yield Check(
        reason=MATCH if count_is_right else "WrongGpuCount",
        where="node",
        expected=quantity(desired.gpu_count, "GPU"),
        observed=quantity(len(gpus), "GPU"),
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
            desired_gpu = desired.gpu(gpu.index)
            yield from check_gpu(desired, desired_gpu, gpu, instances)
            yield from check_compute_mode(desired, desired_gpu, gpu)
            yield from check_fabric(desired, desired_gpu, gpu)


def _shorten(layout: Layout) -> str:
    text = str(layout)
    return text if len(text) <= _MAX_LAYOUT else f"{text[: _MAX_LAYOUT - 1]}…"


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text or ""))
