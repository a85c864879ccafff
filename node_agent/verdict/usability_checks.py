"""Checks whether programs can use a whole GPU: compute mode and NVLink fabric. Pure functions.

NVML does not know everything: of an A100's fabric it knows nothing, and "completed" outlives Fabric
Manager. So a match is necessary for a program to start, not sufficient.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.node_agent.nvml.observed import ComputeMode, Fabric, ObservedGpu
from slicewright.node_agent.verdict.findings import Check

_GPUS_OF_A_BOARD: Final = 8
"""NVSwitches connect all GPUs of a board. With some of its GPUs a machine has no fabric."""
_BEHIND_SWITCHES: Final = frozenset(
    {"NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200", "NVIDIA B300 SXM6 AC"}
)
"""Models that machines with `_GPUS_OF_A_BOARD` of them connect by NVSwitches, and whose fabric NVML
knows: Hopper and later. Source: NVIDIA Fabric Manager user guide, "Supported platforms".
"""


def check_compute_mode(
    desired: Desired, desired_gpu: DesiredGpu, gpu: ObservedGpu
) -> Iterator[Check]:
    """Checks that a GPU accepts the programs of several containers.

    NVIDIA's MPS daemon sets exclusive process mode on purpose. In MIG mode it is always the
    default.
    """
    if desired_gpu.mig or gpu.compute_mode is None:
        return
    shared = any(sharing.strategy == "mps" for sharing in desired.sharing)
    accepted: tuple[ComputeMode, ...] = ("default", *(("exclusive process",) if shared else ()))
    if gpu.compute_mode not in accepted:
        yield Check(
            reason="ComputeModeWrong",
            where=f"GPU {gpu.index}",
            expected=f"compute mode {' or '.join(accepted)}",
            observed=gpu.compute_mode,
        )


def check_fabric(desired: Desired, desired_gpu: DesiredGpu, gpu: ObservedGpu) -> Iterator[Check]:
    """Checks that the fabric of an NVSwitch machine is set up.

    Whether GPUs in MIG mode need it is not documented, so it is only reported for them.
    """
    fabric = gpu.fabric
    if desired_gpu.mig or gpu.mig == "enabled" or fabric is None:
        return
    if fabric.state == "not supported" and not _has_switches(desired, gpu):
        return
    if reason := _fabric_reason(fabric):
        yield Check(
            reason=reason,
            where=f"GPU {gpu.index}",
            expected="an NVLink fabric that is set up",
            observed=describe_fabric(fabric),
        )


def is_set_up(fabric: Fabric) -> bool:
    return fabric.state == "completed" and not fabric.status and not fabric.faults


def describe_fabric(fabric: Fabric) -> str:
    status = f"status {fabric.status}" if fabric.status else ""
    return ", ".join(filter(None, (fabric.state, status, *fabric.faults, *fabric.notes)))


def _has_switches(desired: Desired, gpu: ObservedGpu) -> bool:
    return desired.gpu_count >= _GPUS_OF_A_BOARD and gpu.model in _BEHIND_SWITCHES


def _fabric_reason(fabric: Fabric) -> str | None:
    if fabric.state != "completed":
        return "FabricNotReady"
    return None if is_set_up(fabric) else "FabricFailed"
