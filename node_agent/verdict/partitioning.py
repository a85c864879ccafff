"""Keeps the agent away from the driver while the GPUs are, or may be, partitioned.

mig-manager shows its work by a label of the Node. GKE's partitioner shows nothing: it enables MIG
on all GPUs once, ignores a GPU that another NVML client has open, and looks at GPU 0 only at its
next start. So a single probe at the wrong moment leaves a GPU without MIG until the node reboots.
Only the device plugin, which starts after it, shows that it is done. Source:
GoogleCloudPlatform/container-engine-accelerators, partition_gpu.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from slicewright.apis.desired_state import Desired
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.node_checks import is_gpu_resource
from slicewright.node_agent.verdict.verify import partitioning_in_progress, partitioning_verdict

GKE_PATIENCE_S: Final = 300.0
"""A partitioner that needs longer has failed, and a probe shows how. It runs nvidia-smi a few
times, and each run starts eight GPUs without persistence for up to 24 s.
"""


@dataclass
class Partitioning:
    """Considers every turn before its probe. Seconds on the monotonic clock."""

    driver_loaded: Callable[[], bool] = lambda: False
    """True if the machine has a driver: before, nobody partitions, and a probe opens no GPU."""
    _since: float | None = None
    """The first turn with a driver and without an advertised GPU."""
    _advertised: bool = False
    """True if the last Node that was read advertised GPUs."""

    def judge(self, desired: Desired, node: NodeState | None, now: float) -> Verdict | None:
        """Returns the verdict while the GPUs must not be probed, else None."""
        return partitioning_in_progress(desired, node) or self._judge_gke(desired, node, now)

    def _judge_gke(self, desired: Desired, node: NodeState | None, now: float) -> Verdict | None:
        if node is not None:
            self._advertised = any(
                count and is_gpu_resource(name) for name, count in node.allocatable.items()
            )
        if self._advertised or not _is_partitioned_by_gke(desired) or not self.driver_loaded():
            self._since = None
            return None
        self._since = now if self._since is None else self._since
        if now - self._since >= GKE_PATIENCE_S:
            return None
        return partitioning_verdict(desired, "a driver, and no GPU advertised yet")


def _is_partitioned_by_gke(desired: Desired) -> bool:
    return desired.partitioner == "gke" and any(gpu.mig for gpu in desired.gpus)
