"""The layout and the driver that a pool wants on its nodes. Pure.

A node's layout is its label. Its driver is the version that its agent has read by NVML
(`Assessment.driver`). NVIDIA's driver pod loads the version in its image when it starts. That pod
is replaced only when it goes (its DaemonSet's update strategy is OnDelete). Source:
docs.nvidia.com, GPU Operator, "GPU Driver Upgrades" without the upgrade controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool

DRIVER_SILENT: Final = frozenset({"DriverNotLoaded", "DriverLibraryMissing"})
"""The agent's reasons for a node without a driver. That is so while its driver pod starts, and
permanently if that pod brings a driver that the node's kernel cannot load.
"""


def has_layout(node: Node, pool: Pool) -> bool:
    return pool.mig_config is None or node.mig_config == pool.mig_config


def has_driver(pool: Pool, base: Assessment) -> bool:
    """True if the agent has found the driver that the pool wants."""
    return pool.driver is None or base.driver == pool.driver


def lacks_driver(pool: Pool, base: Assessment, pods: Sequence[NodePod] | None) -> bool:
    """True if the node's driver pod must be replaced. Also False if nothing is known, as for a node
    that has just booted or joined.

    pods: the node's pods, or None if not known.
    """
    if pool.driver is None or base.driver:
        return not has_driver(pool, base)
    return base.reason in DRIVER_SILENT and bool(outdated(pool.driver, pods or ()))


def may_lack_driver(node: Node, pool: Pool) -> bool:
    """True if `lacks_driver` depends on the node's pods, by the node's last condition."""
    condition = node.condition
    if pool.driver is None or condition is None:
        return False
    return condition.reason in DRIVER_SILENT


def outdated(driver: str, pods: Sequence[NodePod]) -> list[NodePod]:
    """Returns the pods that bring another driver."""
    return [pod for pod in pods if pod.driver and not is_version(pod.driver, driver)]


def brings(driver: str, pods: Sequence[NodePod]) -> NodePod | None:
    """Returns the pod that brings this driver, or has brought it."""
    return next((pod for pod in pods if is_version(pod.driver, driver) and not pod.leaving), None)


def older_than_driver(app: str, driver: str, pods: Sequence[NodePod]) -> list[NodePod]:
    """Returns pods of an operand that are older than the pod that brought this driver.

    NVIDIA's driver manager ends the operands only if it finds a driver loaded, and the driver
    container unloads its own when it ends, if nothing uses it.
    """
    since = max((p.created for p in pods if is_version(p.driver, driver)), default=0.0)
    return [pod for pod in pods if pod.app == app and pod.daemon_set and pod.created < since]


def is_version(tag: str, driver: str) -> bool:
    """True if an image with this tag has the driver. The operator appends the node's system."""
    return tag == driver or tag.startswith(f"{driver}-")


def describe_target(pool: Pool) -> str:
    """Returns the layout and driver that its nodes must have, for people."""
    layout = f"layout {pool.mig_config}" if pool.mig_config else ""
    driver = f"driver {pool.driver}" if pool.driver else ""
    return " and ".join(part for part in (layout, driver) if part)


def changes(node: Node, pool: Pool, base: Assessment) -> str:
    """Returns the changes on the node, for people, such as `the layout changes from a to b`."""
    parts = []
    if not has_layout(node, pool):
        parts.append(f"the layout changes from {node.mig_config or 'none'} to {pool.mig_config}")
    if not has_driver(pool, base):
        origin = f"from {base.driver} " if base.driver else ""
        parts.append(f"the driver changes {origin}to {pool.driver}")
    # Somebody has just set the missing part.
    return " and ".join(parts) or f"the node gets {describe_target(pool)}"


def has_until_its_turn(node: Node, pool: Pool, base: Assessment) -> str:
    """Returns a text for people, such as `has layout a until its turn in the change to b`."""
    old, new = [], []
    if not has_layout(node, pool):
        old.append(f"layout {node.mig_config or 'none'}")
        new.append(str(pool.mig_config))
    if not has_driver(pool, base):
        old.append(f"driver {base.driver or 'none'}")
        new.append(str(pool.driver))
    return f"has {' and '.join(old)} until its turn in the change to {' and '.join(new)}"
